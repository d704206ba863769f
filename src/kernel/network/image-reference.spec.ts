import fc from 'fast-check';

import { canonicalRepository, namesSameImage, parseImageReference, type ImageReference } from './image-reference.ts';

const parsed = (text: string) => {
  const reference = parseImageReference(text);
  if (reference === null) throw new Error(`${text} is no image reference`);
  return reference;
};
const digest = `sha256:${'a'.repeat(64)}`;

describe('an image reference', () => {
  it.each([
    ['nginx', null, 'nginx', null],
    ['library/nginx:1', null, 'library/nginx', '1'],
    ['127.0.0.1:5000/x', { host: '127.0.0.1', port: 5000 }, 'x', null],
    ['[::1]:5000/x:y', { host: '::1', port: 5000 }, 'x', 'y'],
    ['localhost/x', { host: 'localhost', port: null }, 'x', null],
    ['metadata.google.internal/a/b', { host: 'metadata.google.internal', port: null }, 'a/b', null],
    ['INTERNAL/x', { host: 'INTERNAL', port: null }, 'x', null],
    ['internal/x', null, 'internal/x', null],
  ])('%s names the registry that an engine would use', (text, registry, repository, tag) => {
    expect(parsed(text)).toEqual({ registry, repository, tag, digest: null });
  });

  it.each([digest, 'a'.repeat(64), `sha256:${'0'.repeat(64)}`])('is not the bare id %s', (text) => {
    expect(parseImageReference(text)).toBeNull();
  });

  it('is the same image under each of its spellings, and no other', () => {
    for (const same of [
      'nginx',
      'nginx:latest',
      'library/nginx',
      'docker.io/nginx',
      'docker.io/library/nginx:latest',
      'index.docker.io/nginx',
    ])
      expect(namesSameImage(parsed('nginx'), parsed(same))).toBe(true);
    for (const other of ['nginx:1', 'mine/nginx', 'ghcr.io/library/nginx', 'docker.io:444/nginx', `nginx@${digest}`])
      expect(namesSameImage(parsed('nginx'), parsed(other))).toBe(false);
    expect(namesSameImage(parsed(`x:1@${digest}`), parsed(`x@${digest}`))).toBe(true);
  });

  it('is composed of the parts that it was parsed into', () => {
    const word = fc.stringMatching(/^[a-z0-9]{1,8}$/);
    const reference = fc.record<ImageReference>({
      registry: fc.option(fc.record({ host: word.map((name) => `${name}.example`), port: fc.option(fc.integer({ min: 1, max: 65_535 })) })),
      repository: fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join('/')),
      tag: fc.option(fc.stringMatching(/^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,10}$/)),
      digest: fc.option(fc.constant(digest)),
    });
    const written = ({ registry, repository, tag, digest: pinned }: ImageReference) =>
      [
        registry === null ? '' : `${registry.host}${registry.port === null ? '' : `:${registry.port}`}/`,
        repository,
        tag === null ? '' : `:${tag}`,
        pinned === null ? '' : `@${pinned}`,
      ].join('');
    fc.assert(
      fc.property(reference, (made) => {
        expect(parseImageReference(written(made))).toEqual(made);
        expect(canonicalRepository(made)).toContain('/');
      }),
    );
  });

  it('is distinguished from any other text without an error', () => {
    fc.assert(fc.property(fc.string({ maxLength: 300 }), (text) => void parseImageReference(text)));
  });
});
