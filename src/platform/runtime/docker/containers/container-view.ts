import type Dockerode from 'dockerode';
import type { ContainerState, ContainerView, ListedContainer } from '../../runtime.ts';
import { identityOf, labels, type Labels } from '../engine/names.ts';

const states: Record<string, ContainerState> = { created: 'created', running: 'running', restarting: 'running', paused: 'frozen' };
const neverTime = '0001-01-01T00:00:00Z';

/** A container that is being removed, or could not be, counts as exited. */
const stateOf = (status: string): ContainerState => states[status] ?? 'exited';

/** Returns a container of a list as the runtime interface shows it. */
export function listedView(listed: Dockerode.ContainerInfo): ListedContainer {
  return { ...identityOf(listed.Labels), handle: listed.Id, state: stateOf(listed.State) };
}

/** Returns an inspected container as the runtime interface shows it. */
export function view(found: Dockerode.ContainerInspectInfo): ContainerView {
  const state = stateOf(found.State.Status);
  return {
    ...identityOf(found.Config.Labels),
    handle: found.Id,
    state,
    exitCode: state === 'exited' ? found.State.ExitCode : null,
    oomKilled: found.State.OOMKilled,
    startedAt: found.State.StartedAt === neverTime ? null : found.State.StartedAt,
  };
}

/** Returns whether the container is that of an agent with a list of names. */
export const isListed = ({ Config }: Dockerode.ContainerInspectInfo): boolean => labels.address in Config.Labels;

/** Returns the label of the address that the container got when it was created. */
export function addressOf({ Config: { Labels } }: Dockerode.ContainerInspectInfo): Labels {
  return labels.address in Labels ? { [labels.address]: Labels[labels.address] ?? '' } : {};
}
