export { fileEvents } from './files.events.ts';
