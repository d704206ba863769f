/**
 * Writes the files that tests compare with, one after the other, and formats them. One that can't be written hinders no other; it says what
 * to do, and is named again at the end. Run it with `npm run update-golden`: it needs scripts/typescript.mjs.
 */
import { spawnSync } from 'node:child_process';

import { goldenFiles } from '../test/coverage/golden-files.ts';

const steps = [
  ...goldenFiles,
  { name: 'the format of eventstore', write: () => run('oxfmt', 'eventstore') },
  { name: 'docs/reference/openapi.json', write: () => run('npm', 'run', '--silent', 'openapi') },
];
const failed = [];
for (const { name, write } of steps) {
  try {
    await write();
    console.log(`   wrote ${name}`);
  } catch (error) {
    failed.push(name);
    console.error(`   FAILED: ${name}\n${error.message}`);
  }
}
if (failed.length === 0) console.log('Look at the difference, then run `npm test -- test/coverage`.');
else console.error(`FAILED: ${failed.join(', ')}. The reasons are above; mend them and run this again. Everything else is written.`);
// Nest may leave timers behind.
process.exit(failed.length === 0 ? 0 : 1);

function run(command, ...words) {
  const { status, error } = spawnSync(command, words, { stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) throw new Error(`\`${command} ${words.join(' ')}\` ended with ${status}.`);
}
