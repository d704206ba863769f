const HINT = 'Look at the difference. If you meant it, run `npm run update-golden` and commit what it writes.';

/** Compares with a golden file; a failure names the command that rewrites it. */
export function golden(compare: () => void): void {
  try {
    compare();
  } catch (error) {
    if (error instanceof Error) error.message += `\n\n${HINT}`;
    throw error;
  }
}
