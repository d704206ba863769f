import { Injectable } from '@nestjs/common';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ContainerRuntime, type Terminal, type TerminalRequest } from '../../runtime/runtime.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import { containerLost } from '../../sandboxes/index.ts';
import { LiveContainers } from '../../sandboxes/services.ts';

/** Opens terminals in containers. */
@Injectable()
export class ContainerTerminals {
  constructor(
    private readonly live: LiveContainers,
    private readonly runtime: ContainerRuntime,
  ) {}

  /** Throws `runtime_unavailable` if the engine does not answer within a second. */
  requireEngine(): Promise<void> {
    return this.live.requireEngine('the terminal was not opened');
  }

  /** Opens a terminal in the agent's running container. Throws `agent_unavailable` if there is none. */
  async open(agentId: string, generation: number, request: TerminalRequest): Promise<Terminal> {
    return this.runtime.terminal(await this.live.running(agentId, generation), request);
  }
}

/** Throws the caller's refusal for an error of the runtime, and any other error unchanged. */
export function throwCommandRefusal(sandboxId: string, error: unknown): never {
  if (error instanceof RuntimeUnavailable)
    throw new ProblemError('runtime_unavailable', 'The container engine did not answer; the command may have run.');
  if (error instanceof RuntimeRefused) throw containerLost(sandboxId, error.message);
  if (error instanceof ContainerGone) throw containerLost(sandboxId, 'The container ended while the command ran.');
  throw error;
}
