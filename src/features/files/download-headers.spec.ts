import fc from 'fast-check';

import { contentTypeOf, dispositionOf, etagOf, rangeApplies, rangeOf } from './download-headers.ts';

/** Reads a name back as a browser does: the full form first. */
function nameIn(disposition: string): string {
  const whole = /filename\*=UTF-8''(\S+)$/.exec(disposition)?.[1];
  return whole === undefined ? (/^attachment; filename="([^"\\]*)"$/.exec(disposition)?.[1] ?? '') : decodeURIComponent(whole);
}

describe('the name of a download', () => {
  it('is encoded in printable ASCII, whatever its characters', () => {
    const names = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('a"b', 'a\r\nset-cookie: x', 'naïve ☃.txt', "it's (1)*.txt"),
    );
    fc.assert(
      fc.property(names, (name) => {
        const header = dispositionOf(name);
        expect(header).toMatch(/^[\x20-\x7e]+$/);
        expect(nameIn(header)).toBe(name.toWellFormed());
      }),
    );
  });

  it('uses plain ASCII where possible', () => {
    expect(dispositionOf('report.pdf')).toBe('attachment; filename="report.pdf"');
    expect(dispositionOf('naïve".txt')).toBe(`attachment; filename="na_ve_.txt"; filename*=UTF-8''na%C3%AFve%22.txt`);
  });

  it('has the content type of its extension', () => {
    expect(['a.JSON', 'a.tar', 'a.unknown', 'none', 'a.constructor', '.txt'].map(contentTypeOf)).toEqual([
      'application/json',
      'application/x-tar',
      ...Array<string>(3).fill('application/octet-stream'),
      'text/plain; charset=utf-8',
    ]);
  });
});

describe('a part of a file', () => {
  it('follows RFC 9110 for every well-formed header', () => {
    const cases: [header: string | undefined, part: [number, number] | null][] = [
      ['bytes=0-0', [0, 0]],
      ['bytes=2-5', [2, 5]],
      ['bytes=2-', [2, 9]],
      ['bytes=2-100', [2, 9]],
      ['bytes=-3', [7, 9]],
      ['bytes=-100', [0, 9]],
      [undefined, null],
      ['bytes=-', null],
      ['bytes=5-2', null],
      ['bytes=0-1,3-4', null],
      ['items=0-1', null],
      ['bytes=a-b', null],
    ];
    for (const [header, part] of cases) expect(rangeOf(header, 10)).toEqual(part && { start: part[0], end: part[1] });
    for (const header of ['bytes=10-', 'bytes=10-20', 'bytes=-0', `bytes=${'9'.repeat(15)}-`])
      expect(() => rangeOf(header, 10)).toThrow(
        expect.objectContaining({ code: 'range_not_satisfiable', facts: { members: { size: 10 } } }),
      );
  });

  it('lies within the file, or is refused', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), fc.nat(), fc.nat(), (text, size, a, b) => {
        for (const header of [text, `bytes=${a}-${b}`, `bytes=${a}-`, `bytes=-${b}`])
          try {
            const part = rangeOf(header, size);
            if (part !== null) expect(0 <= part.start && part.start <= part.end && part.end < size).toBe(true);
          } catch (error) {
            expect(error).toMatchObject({ code: 'range_not_satisfiable' });
          }
      }),
    );
  });

  it('is sent only of the same content as before', () => {
    const day = 'Sun, 22 Nov 2026 12:00:00 GMT';
    const strong = etagOf(10, 1_000, 1_003_000);
    const weak = etagOf(10, 1_000, 1_001_000);
    expect(weak).toBe(`W/${strong}`);
    expect(etagOf(11, 1_000, 1_003_000)).not.toBe(strong);
    expect(etagOf(10, 1_001, 1_103_000)).not.toBe(strong);
    expect([undefined, strong, day, '"other"', `W/${strong}`].map((known) => rangeApplies(known, strong, day))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect([undefined, weak, day].map((known) => rangeApplies(known, weak, day))).toEqual([true, false, false]);
  });
});
