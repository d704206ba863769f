import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

const timingsFile = new URL('../timings.json', import.meta.url);
/** The time that a file is taken to need until it has been measured, in ms. */
const UNMEASURED_MS = 10_000;

/** Starts the files that take longest first, so that no worker begins a long one when the others have ended (test/timings.json). */
export default class LongestFirst {
  timings = existsSync(timingsFile) ? JSON.parse(readFileSync(timingsFile, 'utf8')) : {};

  sort(tests) {
    const ms = ({ path, context }) => this.timings[relative(context.config.rootDir, path)] ?? UNMEASURED_MS;
    return tests.toSorted((a, b) => ms(b) - ms(a));
  }

  allFailedTests(tests) {
    return tests;
  }

  cacheResults() {}
}
