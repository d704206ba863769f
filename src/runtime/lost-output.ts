import type { LogCursor, LogLine } from './runtime.ts';

const MESSAGE =
  'Lines of output may be missing here: the oldest output was removed before all of it was read, because the container printed too much.';

/** Returns the line that marks where an unknown number of lines may be missing. It is a warning, and comes right after the cursor. */
export function lostOutput(cursor: LogCursor): LogLine {
  return { stream: 'stderr', text: JSON.stringify({ level: 'warning', message: MESSAGE }), cursor };
}
