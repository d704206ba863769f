import fc from 'fast-check';
import { contains, filePath, pathText } from './file-paths.ts';
import { FileRefused } from './files.ts';

const name = fc.string({ unit: fc.constantFrom('a', '.', '-', ' ', '\n', '"', '．', 'ü', '%', '\\'), minLength: 1, maxLength: 6 });

describe('a path of an agent’s files', () => {
  it('keeps its names, and `..`, and loses redundant parts', () => {
    expect(filePath('a//./b/../c')).toEqual({ absolute: false, parts: ['a', 'b', '..', 'c'], folder: false });
    expect(filePath('/data/')).toEqual({ absolute: true, parts: ['data'], folder: true });
    expect([filePath('.'), filePath('..'), filePath('/')].map(({ parts }) => parts)).toEqual([[], ['..'], []]);
    for (const [path, folder] of Object.entries({
      a: false,
      'a/': true,
      'a/.': true,
      'a/..': true,
      'a..': false,
      '.a': false,
      '...': false,
    }))
      expect([path, filePath(path).folder]).toEqual([path, folder]);
  });

  it('is refused if it is empty, has a NUL or half a character, or is too long', () => {
    for (const path of ['', '\0', 'a\0b', '\ud800', 'n'.repeat(256), 'ü'.repeat(128), 'a/'.repeat(2_048)])
      expect(() => filePath(path)).toThrow(expect.objectContaining({ reason: 'invalid_path' }) as FileRefused);
    expect(filePath('n'.repeat(255)).parts).toHaveLength(1);
    expect(filePath('a/'.repeat(2_047)).parts).toHaveLength(2_047);
  });

  it('is the same path when its text is read again', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.array(name, { maxLength: 6 }), (absolute, names) => {
        const path = filePath((absolute ? '/' : './') + names.join('/'));
        const { parts, absolute: isAbsolute } = filePath(pathText(path));
        expect({ parts, isAbsolute }).toEqual({ parts: path.parts, isAbsolute: absolute });
      }),
    );
  });

  it('never has a name with a slash or a NUL, nor an empty one', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        try {
          for (const part of filePath(text).parts) expect(part).not.toMatch(/^$|^\.$|[/\0]/);
        } catch (error) {
          expect(error).toBeInstanceOf(FileRefused);
        }
      }),
    );
  });

  it('contains itself and what is below it, and nothing beside it', () => {
    expect(contains(['data'], ['data'])).toBe(true);
    expect(contains(['data'], ['data', 'a'])).toBe(true);
    for (const other of [[], ['data2'], ['x', 'data']]) expect(contains(['data'], other)).toBe(false);
  });
});
