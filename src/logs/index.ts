export { LogCapture, RETENTION } from './capture/capture.service.ts';
export { logEvents } from './output/logs.events.ts';
