import { IsString } from 'class-validator';

import { Given } from '../../agents/index.ts';

export class RotateMasterKeyDto {
  /**
   * The new master key: 32 bytes as base64 or hex. It is required if `MOORING_MASTER_KEY` sets the present one; otherwise the service
   * generates a key if it is absent. No response contains it.
   */
  @Given()
  @IsString()
  new_master_key?: string;
}

export class RotationBegunDto {
  rotation_id: string;
}

export class RotationDto {
  rotation_id: string;
  /** The id of the master key before: the beginning of its SHA-256. */
  from_key_id: string;
  to_key_id: string;
  /**
   * The phase is `rewrapping` while data keys are wrapped with the new key, `waiting` while a live replica does not have the new key yet,
   * and `finished` when nothing in the database opens with the old key any more.
   */
  phase: 'rewrapping' | 'waiting' | 'finished';
  /** The number of data keys that the old master key still wraps. */
  data_keys_left: number;
  /** The number of live replicas that have not announced that they have the new key. */
  replicas_left: number;
  begun_at: string;
  finished_at: string | null;
}

export class MasterKeyDto {
  /** The id of the master key: the beginning of its SHA-256, which does not reveal it. */
  master_key_id: string;
  /** The place of the key: `file` in the data folder, or the `variable` `MOORING_MASTER_KEY`. */
  kept_in: 'file' | 'variable';
  /** The last rotation; null if there was none. */
  rotation: RotationDto | null;
}
