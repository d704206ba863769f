import { Injectable } from '@nestjs/common';

import { Config } from '../../kernel/config/config.ts';
import type { Written } from '../../sandboxes/index.ts';
import type { Computer } from './aggregate/computer-state.rules.ts';
import type { ComputerSettings } from './aggregate/computers.events.ts';
import { Computers } from './aggregate/computers.service.ts';
import { ComputerVariables } from './variables/computer-variables.service.ts';
import { ComputerImages } from './containers/computer-images.service.ts';
import type { ComputerRequest, CreateComputer } from './computers.commands.ts';
import { MemoryAllocator } from './memory/memory-allocator.service.ts';

const DEFAULTS = { size: 'small', display: { width: 1280, height: 800 }, timezone: 'UTC', idle_timeout_seconds: 900 } as const;

/** Creates computers whose seats are taken. */
@Injectable()
export class NewComputers {
  constructor(
    private readonly computers: Computers,
    private readonly variables: ComputerVariables,
    private readonly allocator: MemoryAllocator,
    private readonly images: ComputerImages,
    private readonly config: Config,
  ) {}

  /** Creates the computer once there is memory for it. Does nothing if it exists already. Throws `capacity`, `desktop_unavailable`. */
  async make(
    computerId: string,
    { accountId, request, context }: Pick<CreateComputer, 'accountId' | 'request' | 'context'>,
  ): Promise<Written<Computer>> {
    const settings = settingsOf(request);
    await this.images.requireInstallable();
    await this.allocator.reserve(computerId, accountId, settings.size);
    const variables = await this.variables.seal(computerId, request.variables ?? {});
    const { deployTimeoutSeconds } = this.config;
    const made = { accountId, endUserId: request.endUserId, settings, variables, deployTimeoutSeconds };
    return this.computers.write(computerId, accountId, { type: 'CreateComputer', ...made }, context);
  }
}

function settingsOf({ endUserId, name = endUserId, ...given }: ComputerRequest): ComputerSettings {
  const { size = DEFAULTS.size, display = DEFAULTS.display, timezone = DEFAULTS.timezone, egress } = given;
  const { idle_timeout_seconds = DEFAULTS.idle_timeout_seconds } = given;
  return { name, size, display: { ...display }, timezone, idle_timeout_seconds, ...(egress == null ? {} : { egress }) };
}
