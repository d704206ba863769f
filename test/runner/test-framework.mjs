/**
 * jest's own test framework (jest-circus), with modules loaded by Node instead of by jest. jest gives each file a fresh copy of every module,
 * and so loads Nest and TypeORM anew for each of them; here a worker loads a module once. See docs/explanation/decisions/0046.
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(import.meta.url);
const { default: circus } = require('jest-circus/runner');

/** The part of jest's module loader that jest-circus uses. */
const nodeModules = {
  /** Loads jest-circus itself, anew for each file, since it keeps the tests of a file in its module. */
  requireInternalModule(path) {
    delete require.cache[path];
    delete globalThis[Symbol.for('EVENT_HANDLERS')];
    return require(path);
  },
  requireModule: (path) => require(path),
  unstable_shouldLoadAsEsm: () => true,
  unstable_importModule: (path) => import(pathToFileURL(path).href),
  setGlobalsForRuntime: () => undefined,
  enterTestCode: () => undefined,
  leaveTestCode: () => undefined,
};

export default function runFile(globalConfig, config, environment, _jestModules, path, send) {
  return circus(globalConfig, config, environment, nodeModules, path, send);
}
