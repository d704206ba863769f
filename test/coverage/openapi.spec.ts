import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(new URL('../../scripts/openapi.mjs', import.meta.url));

describe('docs/openapi.json', () => {
  it('is what the built service answers (npm run openapi writes it)', () => {
    const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8', timeout: 25_000 });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
