import { Injectable } from '@nestjs/common';

import { allSettledPair } from '../../kernel/async/all-settled-pair.ts';
import { Config } from '../../kernel/config/config.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerView } from '../../runtime/container.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import { isUp, type StepRules } from '../lifecycle/steps.rules.ts';
import type { KindContainers } from './container-kind.ts';
import type { Pass } from './pass.ts';

/** Runs single steps on the engine, without retries. The rules choose the next step, and the reconciler records its outcome. */
@Injectable()
export class ContainerSteps {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly config: Config,
  ) {}

  /** The number of passes that run at once. Each makes one or two quick calls to the engine at a time. */
  get quickCallsMax(): number {
    return this.config.engineCalls;
  }

  rules(canFreeze: boolean): StepRules {
    const { deepSleepAfterSeconds, startTimeoutSeconds } = this.config;
    return { canFreeze, deepSleepAfterSeconds, startTimeoutSeconds };
  }

  async create<S extends Sandbox>(kind: KindContainers<S>, { sandboxId, assertLease }: Pass, sandbox: S): Promise<ContainerView> {
    const spec = await kind.specOf(sandboxId, sandbox);
    assertLease();
    return this.runtime.create(spec);
  }

  /** Stops the older container and creates the new one at the same time. Settles when both are over. */
  async replace<S extends Sandbox>(kind: KindContainers<S>, pass: Pass, sandbox: S, older: ContainerView): Promise<ContainerView> {
    const [made] = await allSettledPair(this.create(kind, pass, sandbox), this.stop(kind, sandbox, older));
    return made;
  }

  /** Starts the container, for which it is prepared first. Returns false if somebody else had started it. */
  async start<S extends Sandbox>(
    kind: KindContainers<S>,
    { sandboxId, assertLease }: Pass,
    sandbox: S,
    container: ContainerView,
  ): Promise<boolean> {
    await kind.prepare(sandboxId, sandbox, container);
    assertLease();
    const { environment } = await kind.specOf(sandboxId, sandbox);
    assertLease();
    return this.runtime.start(container.handle, environment);
  }

  stop<S extends Sandbox>(kind: KindContainers<S>, sandbox: S, { handle }: ContainerView): Promise<void> {
    return this.runtime.stop(handle, kind.stopGraceSeconds(sandbox));
  }

  kill({ handle }: ContainerView): Promise<void> {
    return this.runtime.stop(handle, 0);
  }

  freeze({ handle }: ContainerView): Promise<void> {
    return this.runtime.freeze(handle);
  }

  thaw({ handle }: ContainerView): Promise<void> {
    return this.runtime.thaw(handle);
  }

  makeVolume(sandboxId: string): Promise<void> {
    return this.runtime.ensureVolume(sandboxId);
  }

  removeVolume(sandboxId: string): Promise<void> {
    return this.runtime.removeVolume(sandboxId);
  }

  /** Removes the container. With `gently`, stops it first and captures the rest of its output. */
  async remove<S extends Sandbox>(
    kind: KindContainers<S>,
    { assertLease }: Pass,
    sandbox: S,
    container: ContainerView,
    gently: boolean,
  ): Promise<void> {
    if (gently && isUp(container)) await this.stop(kind, sandbox, container);
    if (gently && container.state !== 'created') await kind.drain(sandbox, container);
    assertLease();
    await this.runtime.remove(container.handle);
  }
}
