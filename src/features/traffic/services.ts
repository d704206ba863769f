export { AgentExchanges } from './agent-exchanges.service.ts';
