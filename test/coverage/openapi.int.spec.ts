import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const nest = fileURLToPath(new URL('../../node_modules/@nestjs/cli/bin/nest.js', import.meta.url));
const script = fileURLToPath(new URL('../../scripts/openapi.mjs', import.meta.url));

describe('docs/reference/openapi.json', () => {
  it('matches the sources (npm run openapi writes it)', () => {
    const build = [nest, 'build', '--path', 'tsconfig.openapi.json'];
    expect(spawnSync(process.execPath, build, { encoding: 'utf8', timeout: 400_000 })).toMatchObject({ status: 0 });
    const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8', timeout: 100_000 });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
