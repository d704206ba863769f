export { commandEvents } from './commands.events.ts';
