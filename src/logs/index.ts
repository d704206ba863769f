export { LogCapture, RETENTION } from './capture.service.ts';
export { logEvents } from './logs.events.ts';
