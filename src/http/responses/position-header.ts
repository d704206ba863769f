/** The header of a response to a write: the position of its last event. Reads that name it see what was written. */
export const POSITION_HEADER = 'x-event-position';
