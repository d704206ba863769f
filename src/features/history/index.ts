export { FindStaleCursors as FindOutrun, ListAudit, type AuditPage } from './audit/audit.queries.ts';
export { EventsQueryDto, selectionOf } from './entries/history.dto.ts';
export { AuditItem, HistoryItem, historyItem, isSelected, type EventSelection } from './entries/history-item.ts';
