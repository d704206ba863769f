/**
 * Runs the tests: `node scripts/test.mjs [--tiers=unit,int] [what jest takes]`. Without `--tiers` it runs the unit and integration tests,
 * or, if a path is named, what that names in any tier. It imports nothing but Node itself, because node_modules may not exist yet.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const allTiers = ['unit', 'int', 'docker', 'e2e'];
/** The tiers that need nothing but Node and the installed packages. */
const everywhere = ['unit', 'int'];

/** The jest options whose value is a separate argument, and therefore not a path. */
const text = { type: 'string' };
const options = { tiers: text, testNamePattern: { ...text, short: 't' }, maxWorkers: { ...text, short: 'w' }, outputFile: text };
const { values, positionals: paths } = parseArgs({ options, strict: false, allowPositionals: true });

const tiers = values.tiers?.split(',') ?? (paths.length > 0 ? allTiers : everywhere);
const leftOut = allTiers.filter((tier) => !tiers.includes(tier));
const jestArguments = process.argv.slice(2).filter((argument) => !argument.startsWith('--tiers='));

// Only tests that need an engine start the built service.
const build = leftOut.includes('docker') && leftOut.includes('e2e') ? [] : ['--build'];
const ready = run('scripts/setup.mjs', ...build);
process.exitCode = ready === 0 ? runJest() : ready;

function runJest() {
  const names = new Intl.ListFormat('en').format(leftOut);
  process.env.LEFT_OUT = leftOut.length > 0 ? `Not run: the ${names} tests. \`npm run test:all\` runs everything.` : '';
  const node = ['--import', './scripts/typescript.mjs', '--enable-source-maps', '--disable-warning=ExperimentalWarning'];
  return run(...node, 'node_modules/jest/bin/jest.js', ...jestArguments, '--selectProjects', ...tiers);
}

function run(...nodeArguments) {
  const cwd = fileURLToPath(new URL('..', import.meta.url));
  const { status, error } = spawnSync(process.execPath, nodeArguments, { cwd, stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}
