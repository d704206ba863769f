import { FailureReason, shownCommand, withoutHostPaths } from './build-failure.ts';

const merged = '/var/lib/docker/overlay2/7c3d6298671bac0883f4f14e083523cd/merged';

describe('the engine’s message about a failed build', () => {
  it.each([
    [`failed to copy files: lstat ${merged}/x/y: not a directory`, 'not a directory'],
    [`failed to copy files: failed to copy directory: mkdir ${merged}/x: not a directory`, 'not a directory'],
    ['COPY failed: stat /srv/engine/tmp/docker-builder123/a: no such file or directory', 'no such file or directory'],
    [`Error processing tar file(exit status 1): open ${merged}/a: no space left on device`, 'no space left on device'],
    ['Error processing tar file(exit status 1): unexpected EOF', 'could not write the files'],
  ])('is reported without a path of its machine: %s', (said, told) => {
    const ours = withoutHostPaths(said);
    expect(ours).toContain(told);
    expect(ours).not.toMatch(/\/var|\/srv|overlay|docker|tar file/);
  });

  it.each([
    'COPY failed: file not found in build context or excluded by .dockerignore: stat nope: file does not exist',
    "The command 'node --check server.js' returned a non-zero code: 1",
    "The command '/bin/sh -c ls /var/lib/docker/overlay2/x' returned a non-zero code: 2",
    'dockerfile parse error line 2: unknown instruction: FRM',
  ])('is reported unchanged if it contains none: %s', (said) => expect(withoutHostPaths(said)).toBe(said));
});

describe('the reason why a command failed', () => {
  const reasonOf = (output: string) => {
    const reason = new FailureReason();
    for (const line of output.split('\n')) reason.push(line);
    return reason.text;
  };

  it.each<[string, string, string]>([
    [
      'of npm',
      'npm error code 127\nnpm error path /app\nnpm error command failed\nnpm error command sh -c husky\nnpm error sh: 1: husky: not found',
      'npm error sh: 1: husky: not found',
    ],
    [
      'of npm that finds no versions',
      'npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve\nnpm error\nnpm error A complete log of this run',
      'npm error ERESOLVE unable to resolve',
    ],
    [
      'of pip',
      '  error: subprocess-exited-with-error\n  × Getting requirements did not run.\n  ╰─> [4 lines of output]\n      error: Multiple top-level packages discovered\n      [end of output]\n  note: This error originates from a subprocess, and is likely not a problem with pip.\nerror: subprocess-exited-with-error\nhint: See above for details.',
      'error: Multiple top-level packages discovered',
    ],
    [
      'of pip that finds no package',
      'Collecting x\nERROR: No matching distribution found for x\n[notice] A new release',
      'ERROR: No matching distribution found for x',
    ],
    [
      'of pip that finds no version',
      'ERROR: Ignored the following versions that require a different python version: 6.0 Requires-Python >=3.12\nERROR: Could not find a version that satisfies the requirement x>=6 (from versions: 1.0)\nERROR: No matching distribution found for x>=6',
      'ERROR: No matching distribution found for x>=6',
    ],
    [
      'of a compiler',
      "> tsc\nsrc/a.ts(1,7): error TS2322: Type 'x'.\nsrc/b.ts(1,7): error TS2304: y\nnpm error Lifecycle script `build` failed",
      "src/a.ts(1,7): error TS2322: Type 'x'.",
    ],
    [
      'of a program in Node',
      "/app/b.js:1\nthrow new Error('x')\n^\n\nTypeError: x is no y\n    at b.js:1\n\nNode.js v20.1.0",
      'TypeError: x is no y',
    ],
    [
      'of a program in Python',
      'Traceback (most recent call last):\n  File "a.py"\nModuleNotFoundError: No module named \'x\'',
      "ModuleNotFoundError: No module named 'x'",
    ],
    ['of a shell', 'sh: 1: pnpm: not found\n ELIFECYCLE  Command failed with exit code 127.', 'sh: 1: pnpm: not found'],
    [
      'that goes on in the next line',
      'error during build:\n\u001b[31mCould not resolve "./x"\u001b[0m\n    at y',
      'error during build: Could not resolve "./x"',
    ],
    [
      'of yarn',
      '➤ YN0000: ┌ Link step\n➤ YN0028: │ The lockfile would have been modified\n➤ YN0000: · Failed with errors in 0s',
      '➤ YN0028: │ The lockfile would have been modified',
    ],
    [
      'after a warning',
      'npm warn deprecated error: x\nWARN old error: y\nwarning package.json: error: z\nfatal: no such thing',
      'fatal: no such thing',
    ],
    ['that is only the last line', 'so far so good\nno such knot\n\n', 'no such knot'],
    ['that nobody said', '\n', ''],
  ])('is its first error: %s', (_, output, reason) => expect(reasonOf(output)).toBe(reason));

  it('is found in time that grows with the line', () => {
    for (const unit of ['error', ' ', 'ERR_', 'a: ', '[']) {
      const begun = performance.now();
      reasonOf(unit.repeat(16_384 / unit.length));
      expect(performance.now() - begun).toBeLessThan(1_000);
    }
  });
});

describe('a command in a log', () => {
  it('is one line', () => {
    expect(shownCommand(['python3', '-c', 'import os\nos.remove("x")', 'a b'])).toBe('python3 -c … a b');
  });
});
