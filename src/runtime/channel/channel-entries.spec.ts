import fc from 'fast-check';

import { UNFINISHED_PREFIX } from '../file-paths.ts';
import { FILE_ENTRIES_MAX } from '../files.ts';
import { parseEntries } from './channel-entries.ts';

function entry(name: string, mode = 0o100644, size = 3, mtime = 1_700_000_000): Buffer {
  const text = Buffer.from(name);
  const facts = Buffer.alloc(24);
  facts.writeUInt32LE(mode, 0);
  facts.writeBigUInt64LE(BigInt(size), 4);
  facts.writeBigInt64LE(BigInt(mtime), 12);
  facts.writeUInt32LE(text.length, 20);
  return Buffer.concat([facts, text]);
}

describe('the entries of a folder', () => {
  it('are read with their kind, size and time, sorted by name', () => {
    const listed = Buffer.concat([entry('b', 0o040755), entry('c', 0o120777), entry('a', 0o100600, 5, -1), entry('d', 0o010644)]);
    expect(parseEntries(listed)).toEqual({
      entries: [
        { name: 'a', kind: 'file', size: 5, mtime: -1 },
        { name: 'b', kind: 'directory', size: 3, mtime: 1_700_000_000 },
        { name: 'c', kind: 'link', size: 3, mtime: 1_700_000_000 },
        { name: 'd', kind: 'other', size: 3, mtime: 1_700_000_000 },
      ],
      truncated: false,
    });
  });

  it('have their names whatever those contain, and no name can imitate another entry', () => {
    const name = fc.string({ minLength: 1, maxLength: 60 }).filter((each) => !each.startsWith(UNFINISHED_PREFIX));
    fc.assert(
      fc.property(fc.uniqueArray(name, { maxLength: 30 }), (names) => {
        const { entries } = parseEntries(Buffer.concat(names.map((each) => entry(each))));
        expect(entries.map((each) => each.name).toSorted()).toEqual(names.map((each) => Buffer.from(each).toString()).toSorted());
      }),
    );
  });

  it('leave out files that are being written', () => {
    expect(parseEntries(Buffer.concat([entry(`${UNFINISHED_PREFIX}x`), entry('a')])).entries.map(({ name }) => name)).toEqual(['a']);
  });

  it('are truncated at the limit, and before an incomplete last one', () => {
    const many = Buffer.concat(Array.from({ length: FILE_ENTRIES_MAX + 1 }, (_, at) => entry(String(at))));
    expect(parseEntries(many)).toMatchObject({ truncated: true });
    expect(parseEntries(many).entries).toHaveLength(FILE_ENTRIES_MAX);
    const cut = Buffer.concat([entry('a'), entry('b')]).subarray(0, -1);
    expect(parseEntries(cut)).toMatchObject({ truncated: true, entries: [{ name: 'a' }] });
  });

  it('are read from any bytes without an error', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => void parseEntries(Buffer.from(bytes))));
  });
});
