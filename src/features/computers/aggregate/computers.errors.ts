import { Refusal } from '../../../kernel/errors/refusal.ts';

export function computerNotFound(): Refusal {
  return new Refusal('computer_not_found', 'There is no such computer.');
}
