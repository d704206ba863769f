import { createReadStream, existsSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

const FILE_NAME = 'shredded.jsonl';
/** The number of subjects in each batch. */
const BATCH = 1_000;

/**
 * The shredded subjects, one per line, in an append-only file: `{"subject": …, "at": …}`. It is stored outside the database, so that a
 * database restored to an older state can't bring a destroyed key back. It contains no secret, so copies of it need no protection.
 */
export class ShredLedger {
  constructor(readonly file: string) {}

  static in(dataDir: string): ShredLedger {
    return new ShredLedger(join(dataDir, FILE_NAME));
  }

  /** Appends the subjects; they are on disk when the promise resolves. A subject may be in the file more than once. */
  async add(subjects: Iterable<string>): Promise<void> {
    const at = new Date().toISOString();
    const lines = [...subjects].map((subject) => `${JSON.stringify({ subject, at })}\n`).join('');
    if (lines === '') return;
    await mkdir(dirname(this.file), { recursive: true, mode: 0o711 });
    const handle = await open(this.file, 'a', 0o600);
    try {
      // The leading newline ends a line that a crash truncated, so that the new lines stay whole.
      await handle.appendFile(`\n${lines}`);
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  /** Reads the subjects in batches of at most 1000; none if there is no file. */
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

/** Returns null for an empty line and for one that a crash truncated, whose shred was never acknowledged and is repeated. */
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
