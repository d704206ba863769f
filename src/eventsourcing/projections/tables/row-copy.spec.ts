import { CopyText } from './row-copy.ts';

const table = {
  key: 'name',
  columns: { name: 'text', note: 'text', tons: 'integer', papers: 'json' },
  indexes: {},
} as const;

describe('the text of a COPY', () => {
  it('has a line for each row, whatever its values contain and however long they are', () => {
    const text = new CopyText(table);
    const long = '\u20ac'.repeat(200_000);
    text.add({ name: 'Ark', note: 'a\tb\\c\nd\re', tons: 1, papers: { by: 'a"\n' } });
    text.add({ name: '', note: null, tons: null, papers: null });
    text.add({ name: 'Beagle', note: long, tons: 2, papers: [] });
    const lines = ['Ark\ta\\tb\\\\c\\nd\\re\t1\t{"by":"a\\\\"\\\\n"}', '\t\\N\t\\N\t\\N', `Beagle\t${long}\t2\t[]`];
    expect(text.bytes).toBe(Buffer.byteLength(`${lines.join('\n')}\n`));
    expect(text.drain().toString()).toBe(`${lines.join('\n')}\n`);
  });

  it('is drained once, and does not change afterwards when more rows are added', () => {
    const text = new CopyText(table);
    text.add({ name: 'Ark', note: null, tons: 1, papers: null });
    const first = text.drain();
    text.add({ name: 'Beagle', note: null, tons: 2, papers: null });
    expect([first.toString(), text.drain().toString(), text.drain().length, text.bytes]).toEqual([
      'Ark\t\\N\t1\t\\N\n',
      'Beagle\t\\N\t2\t\\N\n',
      0,
      0,
    ]);
  });
});
