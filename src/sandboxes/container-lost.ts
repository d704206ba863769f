import { ProblemError } from '../kernel/errors/problem-error.ts';
import { kindOf } from './sandbox-id.ts';

/** Returns the refusal of work in a container that the engine refused, or that ended meanwhile; `detail` is the sentence for the caller. */
export function containerLost(sandboxId: string, detail: string): ProblemError {
  return new ProblemError(kindOf(sandboxId) === 'computer' ? 'desktop_unreachable' : 'agent_unavailable', detail);
}
