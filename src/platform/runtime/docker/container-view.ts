import type Dockerode from 'dockerode';
import type { ContainerState, ContainerView } from '../runtime.ts';
import { identityOf } from './names.ts';

const states: Record<string, ContainerState> = { created: 'created', running: 'running', restarting: 'running', paused: 'frozen' };
const neverTime = '0001-01-01T00:00:00Z';

/** A container as the port shows it. What is being removed, or could not be, counts as exited. */
export function view(found: Dockerode.ContainerInspectInfo): ContainerView {
  const state = states[found.State.Status] ?? 'exited';
  return {
    ...identityOf(found.Config.Labels),
    handle: found.Id,
    state,
    exitCode: state === 'exited' ? found.State.ExitCode : null,
    oomKilled: found.State.OOMKilled,
    startedAt: found.State.StartedAt === neverTime ? null : found.State.StartedAt,
  };
}
