export { backUp } from './backup.ts';
export { runTool, UsageError } from './run-tool.ts';
export { checkedBackup } from './checked-backup.ts';
export { migrateStore } from './migrate-store.ts';
export { restore } from './restore.ts';
