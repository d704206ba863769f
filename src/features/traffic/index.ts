export { routeByDomain } from './agent-domain.ts';
