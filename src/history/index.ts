export { EventsQueryDto, selectionOf } from './history.dto.ts';
export { HistoryItem, historyItem, isSelected, type EventSelection } from './history-item.ts';
