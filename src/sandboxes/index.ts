export { agentActivityTable } from './activity/agent-activity.table.ts';
export type { Need, NotAwake, Wakeable } from './activity/wakeable.ts';
