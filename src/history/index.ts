export { FindOutrun, ListAudit } from './audit/audit.queries.ts';
export { EventsQueryDto, selectionOf } from './entries/history.dto.ts';
export { HistoryItem, historyItem, isSelected, type EventSelection } from './entries/history-item.ts';
