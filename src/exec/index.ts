export { execEvents } from './exec.events.ts';
