export { computerEvents } from './aggregate/computers.events.ts';
