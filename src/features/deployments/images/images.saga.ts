import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../../eventsourcing/sagas/saga.ts';
import { EngineLimits } from '../../../sandboxes/services.ts';
import { ImageSweep } from './image-sweep.service.ts';

/** The only key, so that one replica sweeps for all of them. */
const ONLY_KEY = 'all';
/** A sweep runs after this time even without an event, in ms. */
const SWEEP_EVERY_MS = 10 * 60_000;
/** The shortest pause between two sweeps, and between other work of the engine and a sweep, in ms. */
const PAUSE_MS = 5_000;
/** The longest time for which a sweep waits until the engine is idle, in ms. */
const QUIET_TIMEOUT_MS = 60_000;
/** A pause is at least this many times as long as the sweep before it. */
const REST_FACTOR = 10;

/**
 * Removes unused images after a deployment has ended, after an agent was deleted, and at intervals. Removals slow down the starts of
 * containers, so a sweep waits until none was started for a while.
 */
@Injectable()
export class ImagesSaga implements Saga, OnModuleInit {
  readonly name = 'images';
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['agent'],
    types: ['DeploymentSucceeded', 'DeploymentFailed', 'DeploymentCanceled', 'AgentDeleted'],
  };
  readonly concurrency = 1;
  private hasStarted = false;
  /** The earliest time of the next sweep, in ms since 1970. */
  private restUntil = 0;
  /** The time since which a sweep waits for an idle engine, in ms since 1970; null if none waits. */
  private waitingSince: number | null = null;

  constructor(
    private readonly sagas: Sagas,
    private readonly sweep: ImageSweep,
    private readonly limits: EngineLimits,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(): string {
    return ONLY_KEY;
  }

  /** Starts the first sweep. Each further one is started by an event, or by the time that the previous one returned. */
  async resync(): Promise<SagaKey[]> {
    return this.hasStarted ? [] : [{ key: ONLY_KEY, account: null }];
  }

  async reconcile(_key: string, { assertLease, withoutSlot }: SagaPass): Promise<Date | null> {
    this.hasStarted = true;
    if (Date.now() < this.restUntil) return new Date(this.restUntil);
    this.waitingSince ??= Date.now();
    if (this.limits.quietMs < PAUSE_MS && Date.now() - this.waitingSince < QUIET_TIMEOUT_MS) return new Date(Date.now() + PAUSE_MS);
    this.waitingSince = null;
    const begun = performance.now();
    const isMore = await withoutSlot(() => this.sweep.run(assertLease));
    this.restUntil = Date.now() + Math.max(PAUSE_MS, REST_FACTOR * (performance.now() - begun));
    return new Date(isMore ? this.restUntil : Math.max(this.restUntil, Date.now() + SWEEP_EVERY_MS));
  }
}
