import type Dockerode from 'dockerode';
import type { ContainerState, ContainerView, ListedContainer } from '../../container.ts';
import type { KnownContainer } from '../engine/container-identities.ts';
import { labels, type Labels } from '../engine/names.ts';

const states: Record<string, ContainerState> = { created: 'created', running: 'running', restarting: 'running', paused: 'frozen' };
/** The exit code of a supervisor that got incomplete variables. An agent's program may end with it, too. */
const NO_VARIABLES_EXIT_CODE = 125;
const neverTime = '0001-01-01T00:00:00Z';

const timeOf = (text: string): string | null => (text === neverTime ? null : text);

/** A container that is being removed, or whose removal failed, counts as exited. */
const stateOf = (status: string): ContainerState => states[status] ?? 'exited';

export const inspectedState = ({ State }: Dockerode.ContainerInspectInfo): ContainerState => stateOf(State.Status);

/** Returns a listed container in the form of the runtime interface. */
export function listedView(known: KnownContainer, listed: Dockerode.ContainerInfo): ListedContainer {
  return { ...known, handle: listed.Id, state: stateOf(listed.State) };
}

/** Returns an inspected container in the form of the runtime interface. */
export function view(known: KnownContainer, found: Dockerode.ContainerInspectInfo): ContainerView {
  const state = inspectedState(found);
  return {
    ...known,
    handle: found.Id,
    state,
    exitCode: state === 'exited' ? found.State.ExitCode : null,
    ...(state === 'exited' && found.State.ExitCode === NO_VARIABLES_EXIT_CODE && { notBegun: true }),
    oomKilled: found.State.OOMKilled,
    startedAt: timeOf(found.State.StartedAt),
    finishedAt: state === 'exited' ? timeOf(found.State.FinishedAt) : null,
  };
}

/** Returns the labels that depend on the address that the container got at its creation. */
export function addressLabels({ Config: { Labels } }: Dockerode.ContainerInspectInfo): Labels {
  const { [labels.address]: address, [labels.code]: code = '' } = Labels;
  return address === undefined ? {} : { [labels.address]: address, [labels.code]: code };
}
