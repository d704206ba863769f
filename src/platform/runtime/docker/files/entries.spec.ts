import fc from 'fast-check';
import { FILE_ENTRIES_MAX } from '../../files.ts';
import { entriesIn } from './entries.ts';

const name = fc.string({ unit: fc.constantFrom('a', '\n', ' ', '.', '1', '8', 'ü'), minLength: 1, maxLength: 20 });
const line = (entry: string, size = 1) => `81a4 ${size} 1700000000 ./${entry}\n`;

describe('the list of a folder in a container', () => {
  it('has the name, kind, size and time of each entry', () => {
    const listed = `41ed 4096 5 ./folder\na1ff 4 -7 ./link\n11a4 0 5 ./fifo\n${line('file', 2 ** 40)}`;
    expect(entriesIn(Buffer.from(listed))).toEqual({
      entries: [
        { name: 'fifo', kind: 'other', size: 0, mtime: 5 },
        { name: 'file', kind: 'file', size: 2 ** 40, mtime: 1_700_000_000 },
        { name: 'folder', kind: 'directory', size: 4_096, mtime: 5 },
        { name: 'link', kind: 'link', size: 4, mtime: -7 },
      ],
      truncated: false,
    });
    expect(entriesIn(Buffer.alloc(0))).toEqual({ entries: [], truncated: false });
  });

  it('can’t be forged by names with line ends', () => {
    fc.assert(
      fc.property(fc.uniqueArray(name, { maxLength: 8 }), (names) => {
        const { entries, truncated } = entriesIn(Buffer.from(names.map((each) => line(each)).join('')));
        expect(entries.map((entry) => entry.name)).toEqual(names.toSorted((a, b) => (a < b ? -1 : 1)));
        expect(truncated).toBe(false);
      }),
    );
  });

  it('leaves out a last entry that was cut, and says so', () => {
    for (const cut of ['81a4 1 1700000000 ./', '81a4 1 1700000000 ./lo'])
      expect(entriesIn(Buffer.from(line('whole') + cut))).toMatchObject({ entries: [{ name: 'whole' }], truncated: true });
    // A name may have line ends, so a name that ends here can't be told from one that was cut.
    expect(entriesIn(Buffer.from(`${line('whole')}81a4 1 17`))).toEqual({ entries: [], truncated: true });
    const many = Array.from({ length: FILE_ENTRIES_MAX + 1 }, (_, index) => line(String(index))).join('');
    const { entries, truncated } = entriesIn(Buffer.from(many));
    expect([entries.length, truncated]).toEqual([FILE_ENTRIES_MAX, true]);
  });
});
