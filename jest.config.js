import { readFileSync } from 'node:fs';

const swc = JSON.parse(readFileSync(new URL('./.swcrc', import.meta.url), 'utf8'));

// Before Node 24.9 jest can't let a CommonJS package require() an ES module, so these two are compiled (light-my-request and @fastify/static ask for them).
const esmRequiredFromCjs = 'cookie|content-disposition';

export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  testMatch: ['<rootDir>/src/**/*.spec.ts', '<rootDir>/test/**/*.spec.ts'],
  // Guards against a test that hangs, not against one that is slow on a busy machine.
  testTimeout: 600_000,
  // Many tests wait for containers, processes and timers, so three keep two processors busy.
  maxWorkers: 3,
  testSequencer: '<rootDir>/test/support/heaviest-first.mjs',
  // The heap of a worker grows by some 12 MB for each file that loads Nest and TypeORM.
  workerIdleMemoryLimit: '700MB',
  reporters: ['default', '<rootDir>/test/support/summary-reporter.mjs'],
  coverageProvider: 'v8',
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/dist-nest/', '<rootDir>/.mooring/'],
  transform: {
    '\\.ts$': ['@swc/jest', { ...swc, swcrc: false }],
    [`/node_modules/(${esmRequiredFromCjs})/.+\\.js$`]: ['@swc/jest', { swcrc: false, jsc: { target: 'es2023' } }],
  },
  transformIgnorePatterns: [`/node_modules/(?!(.+/node_modules/)?(${esmRequiredFromCjs})/)`],
};
