import { statSync } from 'node:fs';

/** The tests that start the service come first and the pure ones last, so that no worker begins a long one when the others have ended. */
const kinds = [/\.e2e\.spec\.ts$/, /\.int\.spec\.ts$/];

/** Sorts the tests' files by their kind, and those of one kind by their size, for want of better knowledge on a fresh machine. */
export default class HeaviestFirst {
  sort(tests) {
    const rank = ({ path }) => {
      const kind = kinds.findIndex((pattern) => pattern.test(path));
      return kind === -1 ? kinds.length : kind;
    };
    const sizes = new Map(tests.map(({ path }) => [path, statSync(path).size]));
    return tests.toSorted((a, b) => rank(a) - rank(b) || sizes.get(b.path) - sizes.get(a.path));
  }

  allFailedTests(tests) {
    return tests;
  }

  cacheResults() {}
}
