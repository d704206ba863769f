const networkErrors = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
]);

/**
 * Returns whether PostgreSQL is unavailable, stops, starts, or has no free connection: SQLSTATE classes 08, 53 and 57P, or messages of the
 * driver.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as { code?: unknown; syscall?: unknown };
  if (typeof code === 'string' && (networkErrors.has(code) || /^(08...|53...|57P..|25P03)$/.test(code))) return true;
  // The socket file of a server on this machine appears when the server starts.
  if (code === 'ENOENT' && syscall === 'connect') return true;
  return /^Connection terminated|^timeout e(xpired|xceeded when trying to connect)|^Client has encountered a connection error|^Query read timeout/.test(
    error.message,
  );
}
