import { readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';

const timingsFile = new URL('../timings.json', import.meta.url);

/**
 * Ends the output of a run with one line that people and machines read: `12 passed, 0 failed`. The lines before it name the tests that failed,
 * and the tiers that were left out (`LEFT_OUT`, from scripts/test.mjs). With `UPDATE_TIMINGS` it records how long each file took, by which runs are ordered.
 */
export default class SummaryReporter {
  lines;

  onRunComplete(contexts, results) {
    if (process.env.UPDATE_TIMINGS) recordTimings([...contexts][0].config.rootDir, results.testResults);
    // A file that could not be loaded has no failed tests, but counts as a failure.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    const skipped = results.numPendingTests + results.numTodoTests;
    const left = skipped > 0 ? `, ${skipped} skipped` : '';
    const leftOut = process.env.LEFT_OUT ? `${process.env.LEFT_OUT}\n` : '';
    // jest's own summary is printed after every other reporter, so that only the end of the process is later.
    if (!this.lines) process.once('exit', () => process.stdout.write(this.lines));
    const names = failedTests([...contexts][0].config.rootDir, results.testResults).map((name) => `failed: ${name}\n`);
    this.lines = `${names.join('')}${leftOut}${results.numPassedTests} passed, ${failed} failed${left}\n`;
  }
}

function failedTests(root, files) {
  return files.flatMap(({ testFilePath, testResults, testExecError }) => {
    const file = relative(root, testFilePath);
    const tests = testResults.filter(({ status }) => status === 'failed').map(({ fullName }) => `${file}: ${fullName}`);
    return testExecError ? [...tests, file] : tests;
  });
}

function recordTimings(root, files) {
  const measured = files.map(({ testFilePath, perfStats }) => [relative(root, testFilePath), Math.round(perfStats.runtime / 100) * 100]);
  const known = JSON.parse(readFileSync(timingsFile, 'utf8'));
  const sorted = Object.entries({ ...known, ...Object.fromEntries(measured) }).toSorted(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(timingsFile, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
}
