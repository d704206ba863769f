import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const secrets = { POSTGRES_PASSWORD: 'one', MOORING_MASTER_KEY: 'two', DOCKER_GID: '999' };

/** Runs the first of the programs that this machine has; null where it has none. */
function firstThatRuns(programs: string[][], environment: Record<string, string> = {}) {
  for (const [program = '', ...words] of programs) {
    const ran = spawnSync(program, words, { cwd: root, encoding: 'utf8', env: { ...process.env, ...environment } });
    if (ran.error === undefined && !/is not a docker command|unknown command|unknown shorthand flag/.test(ran.stderr)) return ran;
  }
  return null;
}

/** Continuous integration has the program; a laptop may be without it. */
function required<Ran>(ran: Ran | null, what: string): Ran | null {
  if (ran === null && process.env.CI) throw new Error(`${what} is not installed`);
  if (ran === null) console.warn(`${what} is not installed: its check was NOT run`);
  return ran;
}

describe('docker-compose.yml', () => {
  const config = (environment: Record<string, string>) =>
    firstThatRuns(
      [
        ['docker', 'compose', '-f', 'docker-compose.yml', 'config'],
        ['docker-compose', '-f', 'docker-compose.yml', 'config'],
      ],
      environment,
    );

  it('is valid', () => {
    const ran = required(config(secrets), 'Docker Compose');
    if (ran !== null) expect({ status: ran.status, error: ran.status === 0 ? '' : ran.stderr }).toEqual({ status: 0, error: '' });
  });

  it.each(Object.keys(secrets))('asks for %s where it is not given', (name) => {
    const ran = required(config({ ...secrets, [name]: '' }), 'Docker Compose');
    if (ran === null) return;
    expect(ran.status).not.toBe(0);
    expect(ran.stderr).toContain(name);
  });
});

describe('deploy/mooring.service', () => {
  it('is a unit that systemd accepts', () => {
    const ran = firstThatRuns([['systemd-analyze', 'verify', '--man=no', 'deploy/mooring.service']]);
    // systemd is no part of a container's image, so this is checked where it is there.
    if (ran !== null)
      expect(
        ran.stderr.split('\n').filter((line) => line.includes('mooring.service') && !/not executable|No such file/.test(line)),
      ).toEqual([]);
  });
});
