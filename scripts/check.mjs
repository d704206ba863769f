/** Runs every check that needs neither a database nor an engine, prints the time of each, and lists the failed ones at the end. */
import { spawnSync } from 'node:child_process';

const checks = ['typecheck', 'lint', 'lint:imports', 'lint:unused', 'format:check', 'build'];
const failed = checks.filter((script) => {
  console.log(`== ${script}`);
  const began = performance.now();
  const { status } = spawnSync('npm', ['run', '--silent', script], { stdio: 'inherit' });
  console.log(`   ${status === 0 ? 'passed' : 'FAILED'} in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  return status !== 0;
});
if (failed.length > 0) console.error(`FAILED: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
