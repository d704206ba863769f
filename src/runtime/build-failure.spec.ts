import { withoutHostPaths } from './build-failure.ts';

const merged = '/var/lib/docker/overlay2/7c3d6298671bac0883f4f14e083523cd/merged';

describe('what the engine says of a failed build', () => {
  it.each([
    [`failed to copy files: lstat ${merged}/x/y: not a directory`, 'not a directory'],
    [`failed to copy files: failed to copy directory: mkdir ${merged}/x: not a directory`, 'not a directory'],
    ['COPY failed: stat /srv/engine/tmp/docker-builder123/a: no such file or directory', 'no such file or directory'],
    [`Error processing tar file(exit status 1): open ${merged}/a: no space left on device`, 'no space left on device'],
    ['Error processing tar file(exit status 1): unexpected EOF', 'could not write the files'],
  ])('is told without a path of its machine: %s', (said, told) => {
    const ours = withoutHostPaths(said);
    expect(ours).toContain(told);
    expect(ours).not.toMatch(/\/var|\/srv|overlay|docker|tar file/);
  });

  it.each([
    'COPY failed: file not found in build context or excluded by .dockerignore: stat nope: file does not exist',
    "The command 'node --check server.js' returned a non-zero code: 1",
    "The command '/bin/sh -c ls /var/lib/docker/overlay2/x' returned a non-zero code: 2",
    'dockerfile parse error line 2: unknown instruction: FRM',
  ])('is told as it is if it names none: %s', (said) => expect(withoutHostPaths(said)).toBe(said));
});
