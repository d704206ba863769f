export { LogCapture, RETENTION } from './capture/log-capture.service.ts';
export { logEvents } from './output/logs.events.ts';
