import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../../kernel/context/command-context.ts';
import type { VerificationDto } from './projections.dto.ts';

/** Rebuilds the read model. Returns the id of the rebuild, or of the one that is running already. Throws `not_found`. */
export class RebuildProjection extends Command<string> {
  constructor(
    readonly context: CommandContext,
    readonly projection: string,
  ) {
    super();
  }
}

/** Cancels the requested rebuild; the current rows stay in use. Throws `not_found`, or `invalid_state` if none is running. */
export class CancelRebuild extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly projection: string,
  ) {
    super();
  }
}

/** Compares the read model with the log. Only the comparison is recorded. Throws `not_found`, or `invalid_state` during a rebuild. */
export class VerifyProjection extends Command<VerificationDto> {
  constructor(
    readonly context: CommandContext,
    readonly projection: string,
  ) {
    super();
  }
}
