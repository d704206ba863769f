/** Whether this run rewrites the golden files: what the sources say is written, and then compared with itself. */
export const updatesGolden = process.env.UPDATE_GOLDEN !== undefined;

const HINT = 'Look at the difference. Where you meant it, run `npm run update-golden` and commit what it writes.';

/** Compares with a golden file; a failure says the command that rewrites it. */
export function golden(compare: () => void): void {
  try {
    compare();
  } catch (error) {
    if (error instanceof Error) error.message += `\n\n${HINT}`;
    throw error;
  }
}
