import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../../kernel/context/command-context.ts';

/**
 * Starts to replace the master key by the given key, or by a new one. Returns the id of the rotation. Throws `invalid_request` if the key
 * can't be used, and `invalid_state` if a rotation is running or a replica does not support it.
 */
export class RotateMasterKey extends Command<string> {
  constructor(
    readonly context: CommandContext,
    readonly newMasterKey: string | null,
  ) {
    super();
  }
}
