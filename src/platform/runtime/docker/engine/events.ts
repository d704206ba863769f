import type Dockerode from 'dockerode';
import { Backoff } from '../../../async/retry.ts';
import type { ContainerName, RuntimeEvent } from '../../runtime.ts';
import { agentOfVolume, identityOf, isNamedByUs, labels, proxyName } from './names.ts';
import type { EngineHealth } from './engine-health.ts';
import { call, jsonLines } from './engine.ts';

const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

interface EngineEvent {
  Type: string;
  Action: string;
  Actor: { ID: string; Attributes?: Record<string, string> };
}

/** Receives what this process has to know of an event before its reader does. */
interface EventNotes {
  /** A container of an agent was created, perhaps by another process. */
  created(container: ContainerName): void;
  /** The proxy of agents with a list of names has ended. */
  proxyEnded(): void;
}

const filters = JSON.stringify({
  type: ['container', 'volume'],
  event: ['create', 'start', 'die', 'oom', 'stop', 'pause', 'unpause', 'destroy'],
});

/**
 * Yields the engine's events about this instance's agents. It reconnects by itself, and yields `lost` after each connect. It
 * reports the creation of containers too, because a superseded process that was suspended in the middle of a call may create one that nobody
 * needs any more.
 */
export async function* engineEvents(
  docker: Dockerode,
  instance: string,
  health: EngineHealth,
  signal: AbortSignal,
  notes: EventNotes,
): AsyncGenerator<RuntimeEvent> {
  const backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
  while (!signal.aborted) {
    try {
      const stream = await call(null, () => docker.getEvents({ filters, abortSignal: signal }));
      backoff.reset();
      health.answered();
      yield { kind: 'lost' };
      for await (const event of jsonLines<EngineEvent>(stream as AsyncIterable<Buffer>)) {
        const agentId = agentOf(event, instance);
        if (isProxyEnd(event, instance)) notes.proxyEnded();
        if (agentId !== null && isCreation(event)) notes.created(identityOf(event.Actor.Attributes ?? {}));
        if (agentId !== null) yield { kind: 'changed', agentId };
      }
    } catch {
      // The engine is or became unavailable; in both cases it reconnects.
    }
    health.invalidate();
    await backoff.pause(signal);
  }
}

function isCreation({ Type, Action }: EngineEvent): boolean {
  return Type === 'container' && Action === 'create';
}

function isProxyEnd({ Action, Actor: { Attributes = {} } }: EngineEvent, instance: string): boolean {
  return (Action === 'die' || Action === 'destroy') && Attributes.name === proxyName(instance);
}

function agentOf({ Type, Action, Actor }: EngineEvent, instance: string): string | null {
  // The name of a volume does not tell its instance, so that others' deployments would cost this one a look each.
  if (Type === 'volume') return Action === 'create' ? null : agentOfVolume(Actor.ID);
  // The labels may be those of an image; the name is given by whoever creates a container.
  const { Attributes = {} } = Actor;
  const isOurs = Attributes[labels.instance] === instance && isNamedByUs(Attributes.name ?? '', Attributes);
  return isOurs ? identityOf(Attributes).agentId : null;
}
