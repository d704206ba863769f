import { ProblemError } from '../../../kernel/errors/problem-error.ts';

export function computerNotFound(): ProblemError {
  return new ProblemError('computer_not_found', 'There is no such computer.');
}
