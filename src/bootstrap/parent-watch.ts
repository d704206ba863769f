const POLL_INTERVAL_MS = 500;

/**
 * Calls `act` once when the process that started this one has ended: npm does not always forward the signal that ends it, and a supervisor
 * that starts a second service must not find the first one still running.
 */
export function onParentGone(act: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    act();
  }, POLL_INTERVAL_MS);
  timer.unref();
}
