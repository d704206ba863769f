/** Returns the name of the agent's stream. Only this function spells it. */
export function agentStream(agentId: string): string {
  return `agent-${agentId}`;
}
