import { ProblemError } from '../../kernel/errors/problem-error.ts';

export function deploymentNotFound(): ProblemError {
  return new ProblemError('not_found', 'The agent has no such deployment.');
}
