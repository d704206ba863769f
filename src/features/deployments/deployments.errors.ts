import { Refusal } from '../../kernel/errors/refusal.ts';

export function noSuchDeployment(): Refusal {
  return new Refusal('not_found', 'The agent has no such deployment.');
}
