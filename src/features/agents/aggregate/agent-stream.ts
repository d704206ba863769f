/** Returns the name of the agent's stream. Apart from sandbox-id.ts, no other code spells that name. */
export function agentStream(agentId: string): string {
  return `agent-${agentId}`;
}
