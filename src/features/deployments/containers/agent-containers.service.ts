import { Injectable } from '@nestjs/common';

import type { Agent } from '../../agents/index.ts';
import { LogCapture } from '../../logs/index.ts';
import { checkReadiness, waitUntilReady } from '../../../agent-protocol/readiness.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ContainerSpec, ContainerView } from '../../../runtime/container.ts';
import type { ImageGone } from '../../../runtime/runtime.errors.ts';
import type { KindContainers } from '../../../sandboxes/index.ts';
import type { BuildLog } from '../records/build-log.ts';
import { ContainerSpecs } from './container-specs.service.ts';
import { ContainerContents } from './container-contents.service.ts';
import { ImageSources } from '../images/image-sources.service.ts';
import { type Listener, parseListeners } from './listeners.ts';
import { wantedRelease } from './next-step.rules.ts';
import { unreadyReason } from './unready-reason.ts';

/** The number of lines of a failed container's output that are copied to the build log. */
const LAST_LINES = 20;
/** The kernel's socket tables in a container, and the bounds on reading them. */
const SOCKET_TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
const TABLES_BYTES_MAX = 64 * 1_024;
const TABLES_MS = 5_000;

/** Determines what the containers of agents consist of, what they contain, and when they are ready. */
@Injectable()
export class AgentContainers implements KindContainers<Agent> {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly images: ImageSources,
    private readonly contents: ContainerContents,
    private readonly capture: LogCapture,
    private readonly specs: ContainerSpecs,
  ) {}

  specOf(agentId: string, agent: Agent): Promise<ContainerSpec> {
    return this.specs.specOf(agentId, agent);
  }

  /** Puts the agent's custom files into a container that was never started. */
  async prepare(agentId: string, agent: Agent, { handle, state }: ContainerView): Promise<void> {
    if (state === 'created') await this.contents.putFiles(agentId, handle, this.specs.runOf(agent).template);
  }

  stopGraceSeconds(agent: Agent): number {
    return this.specs.runOf(agent).stopGraceSeconds;
  }

  async drain({ accountId }: Agent, container: ContainerView): Promise<void> {
    await this.capture.drain(container, accountId);
  }

  pullAgain(agent: Agent, gone: ImageGone, signal: AbortSignal): Promise<void> {
    const { accountId } = agent;
    const command = wantedRelease(agent)?.command ?? [];
    return this.images.pullAgain(gone, { accountId, command }, () => undefined, signal);
  }

  onDeleted(agentId: string): Promise<void> {
    return this.contents.deleteAll(agentId);
  }

  /** Lists in the build log the variables with a private address that the agent may not reach. */
  async logPrivateVariables(agentId: string, agent: Agent, log: BuildLog): Promise<void> {
    if (this.runtime.name === 'docker') (await this.specs.privateVariables(agentId, agent)).forEach(log.line);
  }

  async isReady(agent: Agent, container: ContainerView, withinMs: number, signal: AbortSignal): Promise<boolean> {
    const { port, health } = this.specs.runOf(agent);
    const address = await this.runtime.address(container, port);
    return waitUntilReady(address, health, withinMs, signal);
  }

  /** Checks the container once more. Returns what was requested and answered, and what to do; null if the container is gone. */
  async explainUnready(agent: Agent, container: ContainerView): Promise<string | null> {
    const { port, health } = this.specs.runOf(agent);
    try {
      const address = await this.runtime.address(container, port);
      const [check, listeners] = await Promise.all([checkReadiness(address, health), this.listenersIn(container)]);
      return unreadyReason({ health, address, check, listeners });
    } catch {
      // The failure is then recorded without the explanation.
      return null;
    }
  }

  /** Returns the addresses on which programs in the container listen; null if they can't be seen. */
  private async listenersIn({ handle }: ContainerView): Promise<Listener[] | null> {
    // Without an engine, the tables are those of the whole machine.
    if (this.runtime.name !== 'docker') return null;
    const request = { argv: ['cat', ...SOCKET_TABLES], timeoutMs: TABLES_MS, outputLimitBytes: TABLES_BYTES_MAX };
    const result = await this.runtime.exec(handle, request).catch(() => null);
    return result === null ? null : parseListeners(result.stdout.toString());
  }

  /** Copies the last lines of a container's output to the build log, because they explain best why it did not become ready. */
  async copyLastOutput(container: ContainerView, log: BuildLog): Promise<void> {
    // The build log then contains the reason only.
    const last = await this.runtime.lastLines(container.handle, LAST_LINES).catch(() => []);
    if (last.length > 0) log.line('The last lines of its output:');
    last.forEach((text) => log.line(`  ${text}`));
  }
}
