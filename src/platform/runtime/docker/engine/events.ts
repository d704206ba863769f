import type Dockerode from 'dockerode';
import { Backoff } from '../../../async/retry.ts';
import type { RuntimeEvent } from '../../runtime.ts';
import { agentOfVolume, labels } from './names.ts';
import type { EngineHealth } from './engine-health.ts';
import { call, jsonLines } from './engine.ts';

const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

interface EngineEvent {
  Type: string;
  Action: string;
  Actor: { ID: string; Attributes?: Record<string, string> };
}

const filters = JSON.stringify({
  type: ['container', 'volume'],
  event: ['start', 'die', 'oom', 'stop', 'pause', 'unpause', 'destroy'],
});

/**
 * Yields the engine's events about this instance's agents. It reconnects by itself, and yields `lost` after each connect. Calls
 * `onProxyEnd` when the proxy of agents with a list of names has ended.
 */
export async function* engineEvents(
  docker: Dockerode,
  instance: string,
  health: EngineHealth,
  signal: AbortSignal,
  onProxyEnd: () => void,
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
        if (isProxyEnd(event, instance)) onProxyEnd();
        if (agentId !== null) yield { kind: 'changed', agentId };
      }
    } catch {
      // The engine is or became unavailable; in both cases it reconnects.
    }
    health.invalidate();
    await backoff.pause(signal);
  }
}

function isProxyEnd({ Action, Actor: { Attributes = {} } }: EngineEvent, instance: string): boolean {
  return (Action === 'die' || Action === 'destroy') && Attributes[labels.instance] === instance && labels.proxy in Attributes;
}

function agentOf({ Type, Actor }: EngineEvent, instance: string): string | null {
  if (Type === 'volume') return agentOfVolume(Actor.ID);
  return Actor.Attributes?.[labels.instance] === instance ? (Actor.Attributes[labels.agent] ?? null) : null;
}
