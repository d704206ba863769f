import { ProblemError } from '../../../kernel/errors/problem-error.ts';

export function agentNotFound(): ProblemError {
  return new ProblemError('agent_not_found', 'There is no such agent.');
}
