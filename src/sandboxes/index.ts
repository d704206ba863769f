export { agentActivityTable } from './activity/agent-activity.table.ts';
