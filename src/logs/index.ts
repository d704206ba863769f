export { LogCapture, RETENTION } from './capture.service.ts';
export { logEvents } from './log.events.ts';
export { LogsModule } from './logs.module.ts';
