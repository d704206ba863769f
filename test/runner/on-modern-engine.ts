/**
 * Runs on a newer engine than the machine's, with containerd's store of images, the tests of what differs between engines, or the files that it is
 * given: `npm run test:modern-engine [what jest takes]`. The engine and the tests have a network of their own, so that the machine's engine is not
 * disturbed. It ends with the exit code of scripts/modern-engine.mjs if there is no such engine.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';

const chosen = [
  'src/runtime/docker/docker-runtime.docker',
  'src/runtime/docker/images/images.docker',
  'src/runtime/docker/networks/egress.docker',
  'src/runtime/docker/networks/egress-list.docker',
  'src/runtime/docker/networks/networks-apart.docker',
  'src/features/deployments/images/image-sweep.docker',
  'test/features/moved-tags.docker',
  'test/features/source-credentials.docker',
  'test/e2e/story.e2e',
];
const root = resolve(import.meta.dirname, '../..');

const made = spawnSync(process.execPath, ['scripts/modern-engine.mjs'], {
  cwd: root,
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
});
if (made.status === 0) {
  process.env.TEST_ENGINE = made.stdout.trim();
  process.exitCode = await runTests();
} else process.exitCode = made.status ?? 1;

async function runTests(): Promise<number> {
  const { PrivateEngine } = await import('../support/private-engine.ts');
  const engine = await PrivateEngine.open();
  // An interrupt ends the tests, which clean up on it; the engine is ended after them.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => undefined);
  try {
    await engine.start();
    const { Version } = await engine.docker.version();
    console.log(`on Docker ${Version} with containerd's store of images`);
    const given = process.argv.slice(2);
    const [program = '', ...words] = [...engine.inside, process.execPath, 'scripts/test.mjs', ...(given.length > 0 ? given : chosen)];
    const env = { ...process.env, DOCKER_HOST: `unix://${engine.socket}` };
    const [code] = (await once(spawn(program, words, { cwd: root, env, stdio: 'inherit' }), 'exit')) as [number | null];
    return code ?? 1;
  } finally {
    await engine.close();
  }
}
