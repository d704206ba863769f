/** Ends the output of a run with one line that people and machines read: `12 passed, 0 failed`. */
export default class SummaryReporter {
  line;

  onRunComplete(_contexts, results) {
    // A file that could not be loaded has no failed tests, but counts as a failure.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    const skipped = results.numPendingTests + results.numTodoTests;
    const left = skipped > 0 ? `, ${skipped} skipped` : '';
    // jest's own summary is printed after every other reporter, so that only the end of the process is later.
    if (!this.line) process.once('exit', () => process.stdout.write(this.line));
    this.line = `${results.numPassedTests} passed, ${failed} failed${left}\n`;
  }
}
