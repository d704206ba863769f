import { Logger } from '@nestjs/common';

import { BatchLoader } from '../kernel/async/batch-loader.ts';
import type { Database } from '../postgres/database/database.ts';
import { keyIdOf, unwrapMasterKey } from './envelope.ts';
import type { MasterKeyFile } from './master-key.ts';

const READ = `
  select i.value as current, r.rotation_id, r.old_key_id, r.old_wrapped, e.new_wrapped
    from installation i
    left join master_key_rotations r on r.new_key_id = i.value and r.finished_at is null
    left join master_key_exchange e on e.rotation_id = r.rotation_id
   where i.fact = 'master_key_id'`;

/**
 * A database that is new, or was restored, adopts the master key of its data keys, or else the key of the first service that starts on it.
 */
const CLAIM = `
  insert into installation (fact, value)
  values ('master_key_id', coalesce((select kek_id from data_keys where wrapped is not null limit 1), $1)) on conflict do nothing`;

interface KeyState {
  current: string;
  /** The unfinished rotation to the current key; null if there is none. */
  rotation_id: string | null;
  old_key_id: string | null;
  old_wrapped: Buffer | null;
  new_wrapped: Buffer | null;
}

/** This process does not know the master key that the database is used with now. */
export class UnknownMasterKey extends Error {
  constructor(own: string, wanted: string) {
    super(
      `the master key is not the one that this database was used with: it is ${own}, data keys were wrapped by ${wanted}. Give that one by MOORING_MASTER_KEY or put its master.key back.`,
    );
    this.name = 'UnknownMasterKey';
  }
}

/**
 * The master keys that this process knows: the current one, and during a rotation also the one before. The database records which key is
 * the current one. A process that finds another id there gets that key from the rotation, where it is encrypted with the key that the
 * process has.
 */
export class MasterKeys {
  private readonly logger = new Logger('Keyring');
  private readonly known = new Map<string, Buffer>();
  /** Refreshes run one after another, so that none ends with an older state than an earlier one. */
  private readonly refreshes = new BatchLoader(async () => new Map([['kept', await this.refreshState()]]));
  private currentId: string;
  /** The id of the key with which the next start of this process begins. */
  private persistedId: string;

  /** The file is null if the operator gives the key. */
  constructor(
    private readonly database: Database,
    key: Buffer,
    readonly file: MasterKeyFile | null,
  ) {
    this.currentId = this.add(key);
    this.persistedId = this.currentId;
  }

  /** The key that wraps new data keys, as of the last refresh. */
  get current(): { id: string; key: Buffer } {
    return { id: this.currentId, key: this.of(this.currentId) };
  }

  has(id: string): boolean {
    return this.known.has(id);
  }

  /** Returns the key. Throws if it is not known. */
  of(id: string): Buffer {
    const key = this.known.get(id);
    if (key === undefined) throw new UnknownMasterKey(this.currentId, id);
    return key;
  }

  /** Adds a key before a rotation to it begins. Returns its id. */
  add(key: Buffer): string {
    const id = keyIdOf(key);
    this.known.set(id, key);
    return id;
  }

  /**
   * Reads which key is the current one, and gets it if it is new. Returns the id of the newest key that this process has and that its next
   * start will have. Throws `UnknownMasterKey` if the current key can't be obtained.
   */
  async refresh(): Promise<string> {
    return (await this.refreshes.load('kept')) ?? this.persistedId;
  }

  /** Throws `UnknownMasterKey` if data keys are wrapped by a key that this process does not know. */
  async verify(): Promise<void> {
    await this.refresh();
    const [other] = await this.database.query<{ kek_id: string }>(
      'select kek_id from data_keys where wrapped is not null and kek_id <> all($1::text[]) limit 1',
      [[...this.known.keys()]],
    );
    if (other !== undefined) throw new UnknownMasterKey(this.currentId, other.kek_id);
  }

  private async refreshState(): Promise<string> {
    const state = await this.read();
    this.applyState(state);
    if (!this.has(state.current)) for (const key of (await this.file?.read()) ?? []) this.add(key);
    this.applyState(state);
    if (!this.has(state.current)) throw new UnknownMasterKey(this.currentId, state.current);
    this.currentId = state.current;
    for (const id of this.known.keys()) if (id !== state.current && id !== state.old_key_id) this.known.delete(id);
    await this.persistKey();
    return this.persistedId;
  }

  private async read(): Promise<KeyState> {
    const [state] = await this.database.query<KeyState & Record<string, unknown>>(READ);
    if (state !== undefined) return state;
    await this.database.query(CLAIM, [this.currentId]);
    return this.read();
  }

  /** Applies the keys of a rotation, one of which this process knows. */
  private applyState({ current, rotation_id, old_key_id, old_wrapped, new_wrapped }: KeyState): void {
    if (rotation_id === null || old_key_id === null) return;
    const [newer, older] = [this.known.get(current), this.known.get(old_key_id)];
    if (newer === undefined && older !== undefined && new_wrapped !== null) this.add(unwrapMasterKey(older, rotation_id, new_wrapped));
    if (older === undefined && newer !== undefined && old_wrapped !== null) this.add(unwrapMasterKey(newer, rotation_id, old_wrapped));
  }

  private async persistKey(): Promise<void> {
    if (this.persistedId === this.currentId) return;
    try {
      await this.file?.replace(this.current.key);
      this.persistedId = this.currentId;
    } catch (error) {
      this.logger.warn(`The new master key could not be stored; the service tries again: ${(error as Error).message}`);
    }
  }
}
