/** The tiers of the tests, told apart by the names of their files (CONTRIBUTING.md). */
const tierOf = {
  unit: /(?<!\.(int|docker|e2e))\.spec\.ts$/,
  int: /\.int\.spec\.ts$/,
  docker: /\.docker\.spec\.ts$/,
  e2e: /\.e2e\.spec\.ts$/,
};

const tier = (name) => ({
  displayName: name,
  rootDir: import.meta.dirname,
  testRegex: `/(src|test)/.+${tierOf[name].source}`,
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/dist-nest/', '<rootDir>/.mooring/'],
  // Files are run by jest, and their modules loaded by Node: see docs/explanation/decisions/0046.
  testRunner: '<rootDir>/test/runner/test-framework.mjs',
  testEnvironment: '<rootDir>/test/runner/environment.mjs',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {},
  // One PostgreSQL and one stand-in for an EventStoreDB serve the whole run. Unit tests need neither.
  ...(name !== 'unit' && {
    globalSetup: '<rootDir>/test/runner/global-setup.mjs',
    globalTeardown: '<rootDir>/test/runner/global-teardown.mjs',
  }),
});

export default {
  projects: Object.keys(tierOf).map(tier),
  // Guards against a test that hangs, not against one that is slow on a busy machine.
  testTimeout: 600_000,
  // Many tests wait for containers, processes and timers, so three keep two processors busy.
  maxWorkers: 3,
  // Restarts a worker whose heap is larger after a file. A file that starts a server leaves 2 to 8 MB, which its modules hold, so that a worker
  // reaches some 400 MB in a whole run. Node ends a process at 1 GB on a machine with 4 GB.
  workerIdleMemoryLimit: '800MB',
  testSequencer: '<rootDir>/test/runner/longest-first.mjs',
  reporters: ['default', '<rootDir>/test/runner/summary-reporter.mjs'],
};
