import { Injectable } from '@nestjs/common';

import { restartTimeoutSeconds, type Agent, type AgentRecord, type Release } from '../agents/index.ts';
import { Config } from '../config.ts';
import { Variables } from '../environment/index.ts';
import { LogCapture } from '../logs/index.ts';
import { ready } from '../platform/agent-protocol/agent-protocol.ts';
import { ContainerRuntime, RuntimeRefused, type ContainerView } from '../platform/runtime/runtime.ts';
import { Templates, type Template } from '../templates/index.ts';
import type { BuildLog } from './build-log.ts';
import { containerSpec, imageSourceOf, runningAs } from './container-spec.ts';
import type { Pass } from './engine-view.service.ts';
import type { Rules } from './next-step.decider.ts';

/** Lines of an ended container's output that its build log repeats. */
const LAST_LINES = 20;
/** A container that still runs ends its output never. */
const LAST_LINES_WAIT_MS = 1_000;

/** The steps that touch the engine, each once; which comes next is the decider's to say, and what came of it the saga's to record. */
@Injectable()
export class ContainerSteps {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly templates: Templates,
    private readonly variables: Variables,
    private readonly capture: LogCapture,
    private readonly config: Config,
  ) {}

  /** Passes that go on at once, each making one or two quick calls to the engine at a time. */
  get quickCallsMax(): number {
    return this.config.engineCalls;
  }

  template(templateId: string | null | undefined): Template | undefined {
    return templateId ? this.templates.get(templateId) : undefined;
  }

  /** The settings of how the agent runs that its release, or its candidate, brings. */
  running(agent: Agent) {
    return runningAs(this.template((agent.candidate ?? agent.release)?.templateId), this.config);
  }

  rules(agent: Agent, canFreeze: boolean): Rules {
    return {
      canFreeze,
      deepSleepAfterSeconds: this.config.deepSleepAfterSeconds,
      startTimeoutSeconds: this.running(agent).startTimeoutSeconds,
      restartTimeoutSeconds: restartTimeoutSeconds(this.config),
    };
  }

  touch(agent: Agent, how: 'start' | 'stop' | 'freeze' | 'thaw' | 'kill', { handle }: ContainerView): Promise<void> {
    switch (how) {
      case 'stop':
        return this.runtime.stop(handle, this.running(agent).stopGraceSeconds);
      case 'kill':
        return this.runtime.stop(handle, 0);
      default:
        return this.runtime[how](handle);
    }
  }

  volume(agentId: string, how: 'make_volume' | 'remove_volume'): Promise<void> {
    return how === 'make_volume' ? this.runtime.ensureVolume(agentId) : this.runtime.removeVolume(agentId);
  }

  /** What the engine has to do for the image of the deployment. */
  imageWork({ deployment }: Agent): 'build' | 'pull' {
    const source = deployment === null ? null : imageSourceOf(deployment, this.template(deployment.templateId));
    return source?.kind === 'reference' ? 'pull' : 'build';
  }

  /** The image, pinned; or the failure to record. Throws where the signal aborted it, or no engine answers. */
  async resolveImage(agent: Agent, log: BuildLog, signal: AbortSignal): Promise<AgentRecord> {
    const deployment = agent.deployment;
    if (deployment === null) throw new Error('an agent that deploys has a deployment');
    const deploymentId = deployment.id;
    const source = imageSourceOf(deployment, this.template(deployment.templateId));
    try {
      if (source === null) throw new RuntimeRefused(`The template ${deployment.templateId ?? ''} is not there any more.`);
      const { image, name: imageName, command } = await this.runtime.ensureImage(source, log.line, signal);
      return { type: 'RecordImage', deploymentId, image, imageName, command, commitSha: null };
    } catch (error) {
      if (!(error instanceof RuntimeRefused) || signal.aborted) throw error;
      return { type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason: error.message };
    }
  }

  async create({ agentId, mayAct }: Pass, agent: Agent, release: Release): Promise<void> {
    const variables = await this.variables.of(agentId);
    mayAct();
    await this.runtime.create(containerSpec(agentId, agent, release, this.template(release.templateId), variables, this.config));
  }

  /** Whether it became ready within the time; false, too, where the signal aborted the wait. */
  async awaitReady(agent: Agent, container: ContainerView, withinMs: number, signal: AbortSignal): Promise<boolean> {
    const { port, health } = this.running(agent);
    const address = await this.runtime.address(container, port);
    return ready(address.host, address.port, health, withinMs, signal);
  }

  /** Gone, with all that it had written in the log first where it ended gently. */
  async remove({ mayAct }: Pass, agent: Agent, container: ContainerView, gently: boolean): Promise<void> {
    const up = container.state === 'running' || container.state === 'frozen';
    if (gently && up) await this.runtime.stop(container.handle, this.running(agent).stopGraceSeconds);
    if (gently && container.state !== 'created') await this.capture.drain(container);
    mayAct();
    await this.runtime.remove(container.handle);
  }

  /** Puts the last lines of a container's output into the build log: they tell best why it did not become ready. */
  async lastWords(container: ContainerView, log: BuildLog): Promise<void> {
    const last: string[] = [];
    try {
      for await (const { text } of this.runtime.logs(container.handle, null, AbortSignal.timeout(LAST_LINES_WAIT_MS))) {
        last.push(text);
        if (last.length > LAST_LINES) last.shift();
      }
    } catch {
      // They would have helped; without them the reason has to do.
    }
    if (last.length > 0) log.line('The last lines of its output:');
    last.forEach((text) => log.line(`  ${text}`));
  }
}
