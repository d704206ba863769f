import type { Duplex } from 'node:stream';

import { Injectable } from '@nestjs/common';

import { ContainerRuntime } from '../../../runtime/runtime.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import { LiveContainers } from '../../../sandboxes/services.ts';
import type { AwakeComputer } from './live-computers.service.ts';

/** The socket of the desktop in a computer's container (deploy/computer/desktop). */
const DESKTOP_SOCKET = '/run/user/1000/vnc.sock';

/** Connects to the desktops of computers. */
@Injectable()
export class DesktopDialler {
  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
  ) {}

  /** Opens a stream to the desktop's RFB server. Throws what `LiveContainers.running` and `ContainerRuntime.dial` throw. */
  async dial({ computerId, generation }: AwakeComputer, signal: AbortSignal): Promise<Duplex> {
    const handle = await this.containers.running(computerSandbox(computerId), generation);
    return this.runtime.dial(handle, { unix: DESKTOP_SOCKET }, signal);
  }
}
