/** The longest time of a timer, in ms. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Returns a signal that aborts with a `TimeoutError` after the time (in ms). The process may end before that. Node 20 collects a signal of
 * `AbortSignal.timeout` as garbage if only one of `AbortSignal.any` depends on it, and that one then never aborts; the signal returned here
 * is referenced by its timer.
 */
export function timeoutSignal(ms: number): AbortSignal {
  const end = new AbortController();
  const error = () => new DOMException(`It took longer than ${ms} ms.`, 'TimeoutError');
  setTimeout(() => end.abort(error()), Math.min(ms, TIMER_MS_MAX)).unref();
  return end.signal;
}
