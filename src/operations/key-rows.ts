const NEWLINE = 0x0a;
/** The text of a missing value in PostgreSQL's COPY text format. */
const NULL = '\\N';
/** The first columns of a line; more may follow. */
export const keyColumns = ['subject', 'version', 'kek_id', 'wrapped'];

interface KeyRow {
  subject: string;
  masterKeyId: string;
  /** The value is true if the subject was shredded, and the row is its tombstone. */
  isTombstone: boolean;
  line: string;
}

/** Parses the rows of the key table from pieces of its COPY text that are cut anywhere. */
export class KeyRows {
  private rest: Buffer = Buffer.alloc(0);

  /** Returns the rows that end in the piece. */
  push(piece: Buffer): KeyRow[] {
    const all = Buffer.concat([this.rest, piece]);
    const end = all.lastIndexOf(NEWLINE) + 1;
    this.rest = all.subarray(end);
    if (end === 0) return [];
    return all
      .subarray(0, end - 1)
      .toString('utf8')
      .split('\n')
      .map(rowOf);
  }
}

function rowOf(line: string): KeyRow {
  const [subject = '', , masterKeyId = '', wrapped = NULL] = line.split('\t').map(unescaped);
  return { subject, masterKeyId, isTombstone: wrapped === NULL, line };
}

const escapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

function unescaped(value: string): string {
  return value === NULL ? value : value.replaceAll(/\\(.)/gs, (_, sign: string) => escapes[sign] ?? sign);
}
