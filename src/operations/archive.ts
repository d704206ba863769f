import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';

import { extract, pack, type Pack } from 'tar-stream';

import { syncDirectory } from '../kernel/files.ts';

/** The size of a file in the archive, in bytes; the last one of a table is smaller. */
const PIECE_BYTES = 1024 * 1024;
const MANIFEST = 'manifest.json';
const MANIFEST_BYTES_MAX = 1024 * 1024;
const NEWLINE = 0x0a;

/** The content of one table in the archive, in PostgreSQL's COPY text format. */
export interface TableFacts {
  columns: string[];
  rows: number;
  bytes: number;
  /** The hash of the bytes, in hex. */
  sha256: string;
}

/** The archive's last file. Without it, or with other content than it describes, the archive is damaged. */
export interface Manifest {
  mooring_backup: 1;
  /** The time of the snapshot, in ISO 8601. */
  at: string;
  instance_id: string | null;
  event_store: 'postgres' | 'eventstoredb';
  /** The names of the migrations that had run, in order. */
  migrations: string[];
  /** The last positions of both classes of events. */
  heads: { core: string; log: string };
  /** The data keys are in the archive (`included`), left out (`none`), or its only content (`only`). */
  keys: 'included' | 'none' | 'only';
  /** The ids of the master keys that wrap the data keys, not the keys themselves. */
  master_key_ids: string[];
  tables: Record<string, TableFacts>;
}

/** The file is not a complete backup: it is truncated, changed, or something else. */
export class DamagedBackup extends Error {
  constructor(file: string, what: string) {
    super(`${file} is damaged or no backup: ${what}`);
    this.name = 'DamagedBackup';
  }
}

/** Counts and hashes pieces. */
class Tally {
  rows = 0;
  bytes = 0;
  private readonly hash = createHash('sha256');

  add(piece: Buffer): void {
    this.bytes += piece.length;
    this.hash.update(piece);
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) this.rows += 1;
  }

  facts(columns: string[]): TableFacts {
    return { columns, rows: this.rows, bytes: this.bytes, sha256: this.hash.digest('hex') };
  }
}

/** Writes an archive under a temporary name, and renames it once it is complete and on disk. Its mode is 0600. */
export class ArchiveWriter {
  private readonly tables: Record<string, TableFacts> = {};
  private readonly archive: Pack = pack();
  private readonly written: Promise<void>;

  private constructor(
    private readonly file: string,
    private readonly partial: string,
  ) {
    this.written = pipeline(this.archive, createGzip({ level: 4 }), createWriteStream(partial, { flags: 'wx', mode: 0o600 }));
    this.written.catch(() => undefined);
  }

  /** Throws if the file exists, because no backup is overwritten. */
  static create(file: string): ArchiveWriter {
    if (existsSync(file)) throw new Error(`${file} exists already`);
    return new ArchiveWriter(file, `${file}.${randomUUID()}.partial`);
  }

  async table(name: string, columns: string[], source: AsyncIterable<Buffer>): Promise<void> {
    const tally = new Tally();
    let number = 0;
    for await (const piece of inPieces(source)) {
      tally.add(piece);
      number += 1;
      await this.put(`${name}/${String(number).padStart(6, '0')}.copy`, piece);
    }
    this.tables[name] = tally.facts(columns);
  }

  async finish(manifest: Omit<Manifest, 'mooring_backup' | 'tables'>): Promise<Manifest> {
    const whole: Manifest = { mooring_backup: 1, ...manifest, tables: this.tables };
    await this.put(MANIFEST, Buffer.from(`${JSON.stringify(whole, null, 2)}\n`));
    this.archive.finalize();
    await this.written;
    const handle = await open(this.partial, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(this.partial, this.file);
    await syncDirectory(dirname(this.file));
    return whole;
  }

  /** Deletes the partial file. */
  async abandon(): Promise<void> {
    this.archive.destroy();
    await this.written.catch(() => undefined);
    await rm(this.partial, { force: true });
  }

  private async put(name: string, content: Buffer): Promise<void> {
    const header = { name, size: content.length, mode: 0o600, mtime: new Date(0) };
    const put = new Promise<void>((resolve, reject) =>
      this.archive.entry(header, (error) => (error ? reject(error) : resolve())).end(content),
    );
    // On a full disk the file's stream ends, and the entry would wait forever.
    await Promise.race([put, this.written]);
  }
}

async function* inPieces(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const buffer of source) {
    held.push(buffer);
    bytes += buffer.length;
    if (bytes < PIECE_BYTES) continue;
    yield Buffer.concat(held);
    held = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(held);
}

/** A piece of a table's rows, cut anywhere, or the manifest at the end. */
type Part = { table: string; content: Buffer } | { manifest: Manifest };

async function* partsOf(file: string): AsyncGenerator<Part> {
  const archive = extract();
  const input = createReadStream(file);
  const read = pipeline(input, createGunzip(), archive);
  read.catch(() => undefined);
  try {
    for await (const entry of archive) {
      const { name, size } = entry.header;
      const limit = name === MANIFEST ? MANIFEST_BYTES_MAX : 64 * PIECE_BYTES;
      if (size > limit) throw new Error(`${name} is too large`);
      const chunks: Buffer[] = [];
      for await (const chunk of entry as AsyncIterable<Buffer>) chunks.push(chunk);
      const content = Buffer.concat(chunks);
      if (name === MANIFEST) yield { manifest: JSON.parse(content.toString('utf8')) as Manifest };
      else yield { table: name.slice(0, name.indexOf('/')), content };
    }
    await read;
  } finally {
    input.destroy();
  }
}

/**
 * Yields the content of each table piece by piece, in the order of the file, and checks it against the manifest. Throws `DamagedBackup`, at
 * the latest at the end.
 */
export async function* readArchive(file: string): AsyncGenerator<{ table: string; content: Buffer }, Manifest> {
  const tallies = new Map<string, Tally>();
  let manifest: Manifest | null = null;
  try {
    for await (const part of partsOf(file)) {
      if (manifest !== null) throw new Error('something follows the manifest');
      if ('manifest' in part) {
        ({ manifest } = part);
        continue;
      }
      const tally = tallies.get(part.table) ?? new Tally();
      tallies.set(part.table, tally);
      tally.add(part.content);
      yield part;
    }
  } catch (error) {
    throw new DamagedBackup(file, (error as Error).message);
  }
  if (manifest?.mooring_backup !== 1) throw new DamagedBackup(file, 'it has no manifest, or one of another kind');
  const names = new Set([...Object.keys(manifest.tables), ...tallies.keys()]);
  for (const name of names) {
    const said = manifest.tables[name];
    const found = (tallies.get(name) ?? new Tally()).facts(said?.columns ?? []);
    if (said === undefined || JSON.stringify({ ...found }) !== JSON.stringify({ ...said }))
      throw new DamagedBackup(file, `${name} is not what the manifest says`);
  }
  return manifest;
}
