export { LogCapture, RETENTION } from './capture.service.ts';
export { logEvents } from './log.events.ts';
