export { computerEvents } from './aggregate/computers.events.ts';
export { viewerEvents } from './viewer/viewers.events.ts';
