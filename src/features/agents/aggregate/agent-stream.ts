/** Returns the name of the agent's stream. Only this function spells it, and the one for sandboxes of all kinds. */
export function agentStream(agentId: string): string {
  return `agent-${agentId}`;
}
