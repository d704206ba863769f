/** The protocols in which messages are delivered to agents. */
export const protocolNames = ['mooring', 'openai', 'langgraph', 'a2a'] as const;
export type ProtocolName = (typeof protocolNames)[number];
