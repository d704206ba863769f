import { Injectable } from '@nestjs/common';

import { DEFAULT_TIMEOUT_SECONDS, type ExecDto, type ExecResultDto } from '../../exec/index.ts';
import { Exec } from '../../exec/services.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import type { ComputerCall } from './computer-call.ts';

/** Runs commands in computers. */
@Injectable()
export class ComputerExecs {
  constructor(private readonly exec: Exec) {}

  /** Runs the command and waits for its end. `execId` is the same for every try under one `Idempotency-Key`. Throws what `Exec.run` throws. */
  async run({ computerId, onWoken, ...call }: ComputerCall, execId: string, body: ExecDto): Promise<ExecResultDto> {
    const { command, cwd = null, session = null, env: environment = {}, stdin, timeout = DEFAULT_TIMEOUT_SECONDS } = body;
    const input = stdin === undefined ? null : Buffer.from(stdin);
    const order = { ...call, agentId: computerSandbox(computerId), execId, command, cwd, session, environment, stdin: input };
    const onStart = (woken: boolean) => {
      if (woken) onWoken();
    };
    const { stdout, stderr, ...result } = await this.exec.run({ ...order, timeoutSeconds: timeout }, { onStart });
    return { ...result, stdout: stdout.toString(), stderr: stderr.toString() };
  }
}
