import { Injectable } from '@nestjs/common';

import { beyondBounds } from '../../../builds/run-settings/run-setting-rules.ts';
import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';
import { Config } from '../../../kernel/config/config.ts';
import { invalidField } from '../../../kernel/errors/problem-error.ts';
import { type Spelling, spelled } from '../../../kernel/text/spelling.ts';

/** Holds the run settings of agents to the operator's bounds. */
@Injectable()
export class RunSettingBounds {
  constructor(private readonly config: Config) {}

  /** Throws ProblemError `invalid_request`, with the caller's name of the field, if more is asked for than the operator allows. */
  refuseBeyond(settings: RunSettings, spelling: Spelling): void {
    const found = beyondBounds(settings, this.config);
    if (found !== null) throw invalidField(spelled(found.name, spelling), found.problem);
  }
}
