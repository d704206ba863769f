import { buildCommand, contextName, secretVariables } from './buildctl.ts';

const layout = { folder: '/cache/base', digest: `sha256:${'1'.repeat(64)}` };

describe('the name under which BuildKit gets an image', () => {
  it.each([
    ['node', 'node'],
    ['node:latest', 'node'],
    ['node:22-slim', 'node:22-slim'],
    ['docker.io/library/node:22', 'node:22'],
    ['index.docker.io/library/node', 'node'],
    ['docker.io/someone/tool:1', 'someone/tool:1'],
    ['library/node', 'node'],
    ['ghcr.io/someone/tool', 'ghcr.io/someone/tool'],
    ['localhost:5000/tool:latest', 'localhost:5000/tool'],
    [`node:22@sha256:${'a'.repeat(64)}`, `node:22@sha256:${'a'.repeat(64)}`],
    [`node:latest@sha256:${'a'.repeat(64)}`, `node:latest@sha256:${'a'.repeat(64)}`],
  ])('of %s is %s', (reference, name) => {
    expect(contextName(reference)).toBe(name);
  });
});

describe('the command of a build', () => {
  const words = buildCommand({
    dockerfile: 'Dockerfile',
    bases: [{ reference: 'node:22', layout }],
    labels: { 'mooring.instance': 'abc' },
  });
  const options = words.flatMap((word, at) => (words[at - 1] === '--opt' ? [word] : []));

  it('lets BuildKit fetch nothing: it has the policy, its own reader of Dockerfiles, and each image as a folder', () => {
    expect(words[words.indexOf('--source-policy-file') + 1]).toMatch(/policy\.json$/);
    expect(options).toContain('cmdline=built-in');
    expect(options).toContain(`context:node:22=oci-layout://base0@${layout.digest}`);
    expect(words[words.indexOf('--oci-layout') + 1]).toBe('base0=/cache/base');
  });

  it('gives no entitlement, no agent of SSH keys and no secret', () => {
    expect(words).not.toEqual(expect.arrayContaining([expect.stringMatching(/^--(allow|ssh|secret)/)]));
  });

  it('names the secrets that it is given, and holds no value of them', () => {
    const secrets = { TOKEN: 'canary', OTHER: 'canary two' };
    const wanted = { dockerfile: 'Dockerfile', bases: [], labels: {}, secrets };
    const named = buildCommand(wanted);
    expect(named.flatMap((word, at) => (named[at - 1] === '--secret' ? [word] : []))).toEqual([
      'id=TOKEN,env=MOORING_SECRET_0',
      'id=OTHER,env=MOORING_SECRET_1',
    ]);
    expect(named.join()).not.toContain('canary');
    expect(secretVariables(wanted)).toEqual({ MOORING_SECRET_0: 'canary', MOORING_SECRET_1: 'canary two' });
  });
});
