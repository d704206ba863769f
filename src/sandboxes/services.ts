export { Activity, HOLD_COUNTS, IDLE_FROM, type HeldRow } from './activity/activity.service.ts';
