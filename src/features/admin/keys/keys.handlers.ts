import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { masterKeyBytes } from '../../../kernel/config/master-key-bytes.ts';
import { type MasterKeyRotation, MasterKeyRotations } from '../../../crypto/master-key-rotations.ts';
import { MasterKeys } from '../../../crypto/master-keys.ts';
import { invalidField } from '../../../kernel/errors/problem-error.ts';
import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { RotateMasterKey } from './keys.commands.ts';
import { keyRotationDecider, keyRotationStream } from './keys.decider.ts';
import type { MasterKeyDto, RotationDto } from './keys.dto.ts';
import { ShowMasterKey } from './keys.queries.ts';

const FIELD = 'new_master_key';

@CommandHandler(RotateMasterKey)
export class RotateMasterKeyHandler implements ICommandHandler<RotateMasterKey> {
  constructor(
    private readonly masterKeys: MasterKeys,
    private readonly rotations: MasterKeyRotations,
    private readonly aggregates: Aggregates,
  ) {}

  /** Stores the rotation before its event. After a crash in between, the saga appends the event. */
  async execute({ context, newMasterKey }: RotateMasterKey): Promise<string> {
    const { actor, accountId, requestId, causationId, ip } = context;
    const by = { actor, accountId, requestId, causationId, ip };
    const { id: rotationId, oldKeyId, newKeyId } = await this.rotations.begin(this.parseKey(newMasterKey), by);
    const command = { type: 'RecordBegin', rotationId, fromKeyId: oldKeyId, toKeyId: newKeyId } as const;
    await this.aggregates.execute(keyRotationStream(rotationId), keyRotationDecider, command, context);
    return rotationId;
  }

  private parseKey(written: string | null): Buffer | null {
    if (written === null) {
      if (this.masterKeys.file !== null) return null;
      throw invalidField(FIELD, 'must be given, because the present key is given by MOORING_MASTER_KEY and a made one would be lost');
    }
    const key = masterKeyBytes(written);
    if (key === null) throw invalidField(FIELD, 'must be 32 bytes, as base64 or hex');
    return key;
  }
}

@QueryHandler(ShowMasterKey)
export class ShowMasterKeyHandler implements IQueryHandler<ShowMasterKey> {
  constructor(
    private readonly masterKeys: MasterKeys,
    private readonly rotations: MasterKeyRotations,
  ) {}

  async execute(): Promise<MasterKeyDto> {
    await this.masterKeys.refresh();
    const rotation = await this.rotations.latest();
    return {
      master_key_id: this.masterKeys.current.id,
      kept_in: this.masterKeys.file === null ? 'variable' : 'file',
      rotation: rotation === null ? null : await this.toRotationDto(rotation),
    };
  }

  private async toRotationDto(rotation: MasterKeyRotation): Promise<RotationDto> {
    const left = rotation.finishedAt === null ? await this.rotations.remaining(rotation) : { keys: 0, replicas: 0 };
    return {
      rotation_id: rotation.id,
      from_key_id: rotation.oldKeyId,
      to_key_id: rotation.newKeyId,
      phase: rotation.finishedAt !== null ? 'finished' : left.keys > 0 ? 'rewrapping' : 'waiting',
      data_keys_left: left.keys,
      replicas_left: left.replicas,
      begun_at: rotation.begunAt.toISOString(),
      finished_at: rotation.finishedAt?.toISOString() ?? null,
    };
  }
}
