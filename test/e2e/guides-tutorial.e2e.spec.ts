import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { StartedService } from '../support/started-service.ts';

const page = resolve(import.meta.dirname, '../../docs/tutorial/agent-from-your-repository.md');
/** The commands of the tutorial in their order. The first ones start the service. */
const [starting = '', ...blocks] = [...readFileSync(page, 'utf8').matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = '']) => block);
/** The folder of the repository in the tutorial. */
const REPOSITORY = '/tmp/echo';

describe('docs/tutorial/agent-from-your-repository.md', () => {
  let folder: string;
  let service: StartedService;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-tutorial-'));
    service = await StartedService.start({ runtime: 'local', environment: { MOORING_ALLOW_PRIVATE_SOURCES: 'file:' } });
    mkdirSync(join(folder, '.mooring'));
    cpSync(join(service.dataDir, 'first-run.json'), join(folder, '.mooring/first-run.json'));
  });
  afterAll(async () => {
    await service?.dispose();
    rmSync(folder, { recursive: true });
  });

  it('starts the service as this test does', () => {
    expect(starting.trim()).toBe('MOORING_ALLOW_PRIVATE_SOURCES=file: npm start');
  });

  it('deploys, changes and rolls back an agent, followed command by command', async () => {
    const script = ['set -euo pipefail', ...blocks].join('\n').replaceAll(REPOSITORY, join(folder, 'echo'));
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: folder, timeout: 300_000 });
    expect(stdout).not.toContain('urn:mooring:problem');
    for (const said of ['"response":"You wrote: good morning"', '"response":"I heard: good morning"', 'Asked for a rollback'])
      expect(stdout).toContain(said);
  });
});
