import type { StartCommandRequest } from '../agent-commands.ts';
import { ChannelCommands } from '../channel/channel-commands.ts';
import type { ContainerHandle } from '../container.ts';
import type { LocalChannels } from './local-channels.ts';
import type { LocalContainer } from './local-container.ts';

/** The long-running commands of agents on this machine. */
export class LocalCommands extends ChannelCommands {
  constructor(
    channels: LocalChannels,
    private readonly at: (handle: ContainerHandle) => LocalContainer,
  ) {
    super((handle, signal) => channels.of(handle, signal), '');
  }

  override async start(handle: ContainerHandle, request: StartCommandRequest, signal: AbortSignal): Promise<void> {
    const container = this.at(handle);
    const spec = await container.spec();
    const cwd = container.hostFolder(spec, request.cwd);
    await super.start(handle, { ...request, cwd, argv: container.hostCommand(spec, request.argv) }, signal);
  }
}
