import { Injectable, Logger, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';

import { pause } from '../../kernel/async/pause.ts';
import { Sagas } from '../../eventsourcing/sagas/saga.ts';
import { ContainerKinds } from './container-kinds.ts';
import { Differences } from './differences.service.ts';
import { EngineUptime } from './engine-uptime.service.ts';
import { EngineView } from './engine-view.service.ts';

const EVENTS_RETRY_MS = 1_000;

/** Follows the engine, and wakes the saga of the kind for each change of a sandbox. The pass observes what the change means. */
@Injectable()
export class EngineFollower implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger('Engine');
  private readonly stopping = new AbortController();
  private following: Promise<void> = Promise.resolve();

  constructor(
    private readonly uptime: EngineUptime,
    private readonly kinds: ContainerKinds,
    private readonly sagas: Sagas,
    private readonly engine: EngineView,
    private readonly differences: Differences,
  ) {}

  onApplicationBootstrap(): void {
    this.following = this.follow();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.following;
  }

  private async follow(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        for await (const event of this.uptime.events(signal)) {
          if (event.kind === 'changed') this.wake(event.agentId);
          else await this.wakeAll();
        }
      } catch (error) {
        if (!signal.aborted) this.logger.warn(`engine events: ${String(error)}`);
      }
      if (!signal.aborted) await pause(EVENTS_RETRY_MS, signal);
    }
  }

  /** Wakes the sagas of all sandboxes that differ. Events were lost, so the list must be a new one, which the kinds share. */
  private async wakeAll(): Promise<void> {
    const list = await this.differences.list(0);
    for (const kind of this.kinds.all()) for (const { key, account } of await this.differences.find(kind, list)) this.wake(key, account);
  }

  private wake(sandboxId: string, account: string | null = null): void {
    const kind = this.kinds.of(sandboxId);
    if (kind === null) return;
    this.engine.interruptWait(sandboxId);
    this.sagas.wake(kind.saga, sandboxId, account ?? undefined);
  }
}
