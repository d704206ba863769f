export { keyEvents } from './keys/keys.events.ts';
