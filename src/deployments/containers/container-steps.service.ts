import { Injectable } from '@nestjs/common';

import type { Agent } from '../../agents/index.ts';
import { Config } from '../../platform/config/config.ts';
import { LogCapture } from '../../logs/index.ts';
import { ready } from '../../platform/agent-protocol/agent-protocol.ts';
import { ContainerRuntime, type ContainerSpec, type ContainerView } from '../../platform/runtime/runtime.ts';
import { isUp, type Rules } from '../../sandboxes/lifecycle/steps.decider.ts';
import type { Pass } from '../../sandboxes/index.ts';
import { bothOf } from '../../platform/async/both-of.ts';
import { timeoutSignal } from '../../platform/async/timeout-signal.ts';
import type { BuildLog } from '../records/build-log.ts';
import { containerSpec, runningAs } from './container-spec.ts';
import { ContainerContents } from './container-contents.service.ts';
import { DeploymentImages } from '../images/deployment-images.service.ts';
import { privateVariables } from './private-variables.ts';
import { listeningOn, unreachableReason } from './listening-port.ts';
import { wantedRelease } from './next-step.decider.ts';

/** The number of lines of a failed container's output that are copied to its build log. */
const LAST_LINES = 20;
/** The tables of the sockets in a container, and the bounds on reading them. */
const SOCKET_TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
const TABLES_BYTES_MAX = 64 * 1_024;
const TABLES_MS = 5_000;
/** The longest time that a last attempt to connect takes, ms. */
const CONNECT_MS = 2_000;

/** Runs single steps on the engine, without retries. The decider chooses the next step, and the saga records its outcome. */
@Injectable()
export class ContainerSteps {
  constructor(
    private readonly runtime: ContainerRuntime,
    readonly images: DeploymentImages,
    readonly contents: ContainerContents,
    private readonly capture: LogCapture,
    private readonly config: Config,
  ) {}

  /** The number of passes that run at once. Each makes one or two quick calls to the engine at a time. */
  get quickCallsMax(): number {
    return this.config.engineCalls;
  }

  /** Returns how the agent's candidate or, without one, its release is run. */
  runSettings(agent: Agent) {
    return runningAs(this.images.template(wantedRelease(agent)?.templateId));
  }

  rules(canFreeze: boolean): Rules {
    const { deepSleepAfterSeconds, startTimeoutSeconds } = this.config;
    return { canFreeze, deepSleepAfterSeconds, startTimeoutSeconds };
  }

  /** Starts the container. One that was never started gets the agent's custom files first. Returns false if somebody else had started it. */
  async start({ sandboxId: agentId, assertLease }: Pass, agent: Agent, container: ContainerView): Promise<boolean> {
    if (container.state === 'created') {
      await this.contents.putFiles(agentId, container.handle, this.images.template(wantedRelease(agent)?.templateId));
      assertLease();
    }
    const spec = await this.specOf(agentId, agent);
    assertLease();
    return this.runtime.start(container.handle, spec.environment);
  }

  changeState(agent: Agent, how: 'stop' | 'freeze' | 'thaw' | 'kill', { handle }: ContainerView): Promise<void> {
    switch (how) {
      case 'stop':
        return this.runtime.stop(handle, this.runSettings(agent).stopGraceSeconds);
      case 'kill':
        return this.runtime.stop(handle, 0);
      default:
        return this.runtime[how](handle);
    }
  }

  changeVolume(agentId: string, how: 'make_volume' | 'remove_volume'): Promise<void> {
    return how === 'make_volume' ? this.runtime.ensureVolume(agentId) : this.runtime.removeVolume(agentId);
  }

  async create({ sandboxId: agentId, assertLease }: Pass, agent: Agent): Promise<ContainerView> {
    const spec = await this.specOf(agentId, agent);
    assertLease();
    return this.runtime.create(spec);
  }

  private async specOf(agentId: string, agent: Agent): Promise<ContainerSpec> {
    const release = wantedRelease(agent);
    if (release === null) throw new Error('an agent without a release has no container');
    const variables = await this.contents.variablesOf(agentId);
    return containerSpec(agentId, agent, release, this.images.template(release.templateId), variables, this.config);
  }

  /** Stops the older container and creates the new one at the same time. Settles when both are over. */
  async replace(pass: Pass, agent: Agent, older: ContainerView): Promise<ContainerView> {
    const [made] = await bothOf(this.create(pass, agent), this.changeState(agent, 'stop', older));
    return made;
  }

  /** Names in the build log the variables that hold a private address which the agent may not reach. */
  async logPrivateVariables(agentId: string, { deployment, candidate }: Agent, log: BuildLog): Promise<void> {
    const { agentEgress, agentEgressPrivate } = this.config;
    if (this.runtime.name !== 'docker' || agentEgress !== 'internet') return;
    const variables = {
      ...this.images.template((candidate ?? deployment)?.templateId)?.env,
      ...(await this.contents.variablesOf(agentId)),
    };
    privateVariables(variables, agentEgressPrivate).forEach(log.line);
  }

  /** Returns true if the container became ready within `withinMs`, and false if it did not or the signal aborted the wait. */
  async awaitReady(agent: Agent, container: ContainerView, withinMs: number, signal: AbortSignal): Promise<boolean> {
    const { port, health } = this.runSettings(agent);
    const address = await this.runtime.address(container, port);
    return ready(address, health, withinMs, signal);
  }

  /** Returns a sentence if a program listens on the container's port and the service can't connect to it; null in any other case. */
  async explainUnready(agent: Agent, container: ContainerView): Promise<string | null> {
    if (this.runtime.name !== 'docker') return null;
    const { port } = this.runSettings(agent);
    try {
      const address = await this.runtime.address(container, port);
      if (await ready(address, { tcp: true }, CONNECT_MS, timeoutSignal(CONNECT_MS))) return null;
      const request = { argv: ['cat', ...SOCKET_TABLES], timeoutMs: TABLES_MS, outputLimitBytes: TABLES_BYTES_MAX };
      const { stdout } = await this.runtime.exec(container.handle, request);
      return unreachableReason(listeningOn(stdout.toString(), port), address.host, port);
    } catch {
      // The failure is told without it.
      return null;
    }
  }

  /** Removes the container. With `gently`, stops it first and captures the rest of its output. */
  async remove({ assertLease }: Pass, agent: Agent, container: ContainerView, gently: boolean): Promise<void> {
    if (gently && isUp(container)) await this.runtime.stop(container.handle, this.runSettings(agent).stopGraceSeconds);
    if (gently && container.state !== 'created') await this.capture.drain(container, agent.accountId);
    assertLease();
    await this.runtime.remove(container.handle);
  }

  /** Copies the last lines of a container's output to the build log, because they best explain why it did not become ready. */
  async copyLastOutput(container: ContainerView, log: BuildLog): Promise<void> {
    // Without the output, the log has only the reason.
    const last = await this.runtime.lastLines(container.handle, LAST_LINES).catch(() => []);
    if (last.length > 0) log.line('The last lines of its output:');
    last.forEach((text) => log.line(`  ${text}`));
  }
}
