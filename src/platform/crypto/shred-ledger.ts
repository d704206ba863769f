import { createReadStream, existsSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

const FILE_NAME = 'shredded.jsonl';
/** Subjects given at a time. */
const BATCH = 1_000;

/**
 * Who was shredded, a line each, in a file that only grows: `{"subject": …, "at": …}`. It stands outside the database, so that a database
 * which is put back to an older state can't bring a destroyed key to life again. No secret is in it: copies may lie anywhere.
 */
export class ShredLedger {
  constructor(readonly file: string) {}

  static in(dataDir: string): ShredLedger {
    return new ShredLedger(join(dataDir, FILE_NAME));
  }

  /** On disk when it resolves. A subject that stands there already is added once more; nobody minds. */
  async add(subjects: Iterable<string>): Promise<void> {
    const at = new Date().toISOString();
    const lines = [...subjects].map((subject) => `${JSON.stringify({ subject, at })}\n`).join('');
    if (lines === '') return;
    await mkdir(dirname(this.file), { recursive: true, mode: 0o711 });
    const handle = await open(this.file, 'a', 0o600);
    try {
      // A line that a crash cut off is ended first: what follows stays whole.
      await handle.appendFile(`\n${lines}`);
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  /** The subjects, up to 1000 at a time; none where there is no file. */
  async *subjects(): AsyncGenerator<string[]> {
    let batch: string[] = [];
    for await (const line of linesOf(this.file)) {
      const subject = subjectOf(line);
      if (subject === null) continue;
      batch.push(subject);
      if (batch.length < BATCH) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0) yield batch;
  }
}

/** Null for an empty line and for one that a crash cut off: its shred was never acknowledged, and is done again. */
function subjectOf(line: string): string | null {
  try {
    const { subject } = JSON.parse(line) as { subject?: unknown };
    return typeof subject === 'string' ? subject : null;
  } catch {
    return null;
  }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  if (!existsSync(file)) return;
  yield* createInterface({ input: createReadStream(file), crlfDelay: Infinity });
}
