/** The longest line of a page, in characters. */
export const LINE_MAX = 160;
/** The length at which generated text is wrapped. */
const WRAP_AT = 140;

/** Breaks a text into lines at spaces; lines after the first begin with the indentation. */
export function wrapped(text: string, indentation = ''): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > WRAP_AT) {
      lines.push(line);
      line = indentation + word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}

/** Returns the lines that are not in blocks of code; those in blocks are empty. */
function proseOf(text: string): string[] {
  let inCode = false;
  return text.split('\n').map((line) => {
    const isFence = /^\s*```/.test(line);
    if (isFence) inCode = !inCode;
    return inCode || isFence ? '' : line;
  });
}

/** Returns the rows of all tables, by the number of their line, with the number of their cells. */
export function tableRowsOf(text: string): { line: number; cells: number }[] {
  return proseOf(text).flatMap((line, index) => {
    const row = /^\s*\|(.*)\|\s*$/.exec(line)?.[1];
    return row === undefined ? [] : [{ line: index + 1, cells: row.split(/(?<!\\)\|/).length }];
  });
}

/** Returns the relative links of a page. Their path is empty if they stay on the page, and the anchor null if they name no heading. */
export function linksOf(text: string): { path: string; anchor: string | null }[] {
  const found = [
    ...proseOf(text)
      .join('\n')
      .matchAll(/\]\(([^)\s#]*)(?:#([^)\s]*))?\)/g),
  ];
  return found.filter(([, path = '']) => !/^[a-z]+:/.test(path)).map(([, path = '', anchor]) => ({ path, anchor: anchor ?? null }));
}

/** Returns the anchors of a page's headings, as GitHub makes them. */
export function headingsOf(text: string): string[] {
  const titles = proseOf(text).flatMap((line) => /^#+ (.+)$/.exec(line)?.[1] ?? []);
  const anchors = titles.map((title) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
  return anchors.map((anchor, index) => {
    const before = anchors.slice(0, index).filter((other) => other === anchor).length;
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
}
