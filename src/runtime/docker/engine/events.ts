import type Dockerode from 'dockerode';
import { Backoff } from '../../../kernel/async/retry.ts';
import type { RuntimeEvent } from '../../runtime.ts';
import type { ContainerIdentities, KnownContainer } from './container-identities.ts';
import { agentOfVolume, labels, proxyName } from './names.ts';
import type { EngineHealth } from './engine-health.ts';
import { noteOversized } from './oversized.ts';
import { call, jsonLines } from './engine.ts';

const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

interface EngineEvent {
  Type: string;
  Action: string;
  Actor: { ID: string; Attributes?: Record<string, string> };
}

/** Receives what this process has to record about an event before the reader of the events gets it. */
interface EventNotes {
  /** A container of an agent was created, perhaps by another process. */
  created(container: KnownContainer): void;
  /** The proxy of agents with an allowlist has ended. */
  proxyEnded(): void;
  /** A container was paused or unpaused, perhaps by another process. */
  frozen(handle: string, isFrozen: boolean): void;
  /** A build by the engine's own builder has ended, or the service that requested it. */
  buildEnded(): void;
}

const filters = JSON.stringify({
  type: ['container', 'volume'],
  event: ['create', 'start', 'die', 'oom', 'stop', 'pause', 'unpause', 'destroy'],
});

/**
 * Yields the engine's events about this instance's agents. It reconnects by itself, and yields `lost` after each reconnect. It also reports
 * the creation of containers, because a superseded process that was suspended in the middle of a call may create a container that is no
 * longer needed.
 */
export async function* engineEvents(
  docker: Dockerode,
  identities: ContainerIdentities,
  health: EngineHealth,
  signal: AbortSignal,
  notes: EventNotes,
): AsyncGenerator<RuntimeEvent> {
  // An event repeats the labels of its container, so that only events of the container with the large labels are skipped.
  const onSkip = (): void => noteOversized(docker, 'events');
  const backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
  let lost: { since?: Date } = {};
  while (!signal.aborted) {
    let isFollowing = false;
    try {
      const stream = await call(null, () => docker.getEvents({ filters, abortSignal: signal }));
      backoff.reset();
      health.noteResponse();
      isFollowing = true;
      yield { kind: 'lost', ...lost };
      for await (const event of jsonLines<EngineEvent>(stream as AsyncIterable<Buffer>, onSkip)) {
        if (isProxyEnd(event, identities.instance)) notes.proxyEnded();
        if (isBuildEnd(event, identities.instance)) notes.buildEnded();
        const container = containerOf(event, identities);
        if (container !== null && event.Action === 'create') notes.created(container);
        if (event.Action === 'pause' || event.Action === 'unpause') notes.frozen(event.Actor.ID, event.Action === 'pause');
        const agentId = container?.agentId ?? agentOfVolumeEvent(event);
        if (agentId !== null) yield { kind: 'changed', agentId };
      }
    } catch {
      // The engine was or became unavailable; in both cases the loop reconnects.
    }
    if (isFollowing) lost = { since: new Date() };
    health.invalidate();
    await backoff.pause(signal);
  }
}

function isProxyEnd({ Action, Actor: { Attributes = {} } }: EngineEvent, instance: string): boolean {
  return (Action === 'die' || Action === 'destroy') && Attributes.name === proxyName(instance);
}

function isBuildEnd({ Action, Actor: { Attributes = {} } }: EngineEvent, instance: string): boolean {
  const name = Attributes[labels.build];
  return Action === 'destroy' && name !== undefined && Attributes.name === name && Attributes[labels.instance] === instance;
}

function containerOf({ Type, Actor: { Attributes = {} } }: EngineEvent, identities: ContainerIdentities): KnownContainer | null {
  return Type === 'container' ? identities.identify([Attributes.name ?? ''], Attributes) : null;
}

function agentOfVolumeEvent({ Type, Action, Actor }: EngineEvent): string | null {
  // The name of a volume does not contain its instance, so every event of another installation would cost this one an inspection.
  return Type === 'volume' && Action !== 'create' ? agentOfVolume(Actor.ID) : null;
}
