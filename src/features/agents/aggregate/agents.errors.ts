import { Refusal } from '../../../kernel/errors/refusal.ts';

export function agentNotFound(): Refusal {
  return new Refusal('agent_not_found', 'There is no such agent.');
}
