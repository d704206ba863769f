import { v7 as uuidv7 } from 'uuid';
import type { EventStore, NewEvent } from '../../src/eventsourcing/event-store/event-store.ts';

/** A writer starts a new stream after this many events. */
const streamLength = 40;
/** The other ids of each event are reused, because making ids is not measured; only the event's own id is new. */
const someId = uuidv7();

export type Append = (writer: number) => Promise<unknown>;

/** Makes each writer append to its own streams. */
export function inTurn(writers: number, append: (stream: string, revision: number, event: NewEvent) => Promise<unknown>): Append {
  const places = Array.from({ length: writers }, () => ({ stream: '', revision: -1 }));
  return async (writer) => {
    const place = places[writer];
    if (!place) throw new RangeError(`there is no writer ${writer}`);
    if (place.revision < 0 || place.revision + 1 === streamLength) Object.assign(place, { stream: `agent-${uuidv7()}`, revision: -1 });
    await append(place.stream, place.revision, newEvent());
    place.revision += 1;
  };
}

/** Returns the appends per second of the writers over the time, each waiting for its response before the next. */
export async function appendsPerSecond(append: Append, writers: number, sliceMs: number): Promise<number> {
  const start = performance.now();
  let count = 0;
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      for (; performance.now() - start < sliceMs; count += 1) await append(writer);
    }),
  );
  return (count * 1000) / (performance.now() - start);
}

export function newEvent(): NewEvent {
  return {
    id: uuidv7(),
    type: 'DeploymentRequested',
    schemaVersion: 1,
    data: {
      deployment_id: someId,
      source: { kind: 'git', repository: 'https://git.example.com/team/assistant.git', branch: 'main', directory: null },
      variables_revision: 17,
      reason: 'the description was changed',
    },
    metadata: {
      actor: { kind: 'api_key', id: someId, name: 'deployments' },
      account_id: someId,
      request_id: someId,
      causation_id: null,
      ip: '203.0.113.7',
    },
  };
}

function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) * share)] ?? NaN;
}

export function portAppends(store: EventStore, writers: number): Append {
  return inTurn(writers, (stream, revision, event) => store.append(stream, revision < 0 ? 'no_stream' : revision, [event]));
}

/** Measures the raw limit, reported under its name, and the port in alternating slices. */
export async function compared(
  name: string,
  limit: Append,
  port: Append,
  { writers, rounds, sliceMs }: { writers: number; rounds: number; sliceMs: number },
): Promise<object> {
  const limits: number[] = [];
  const ports: number[] = [];
  const turns = [[limits, limit] as const, [ports, port] as const];
  for (const [, append] of turns) await appendsPerSecond(append, writers, sliceMs);
  for (let round = 0; round < rounds; round += 1)
    for (const [rates, append] of round % 2 ? turns : turns.toReversed()) rates.push(await appendsPerSecond(append, writers, sliceMs));
  // Neighbouring slices are affected equally by other load on the machine, so their ratio is steadier than that of the medians.
  const ratios = ports.map((rate, round) => rate / (limits[round] ?? NaN));
  return {
    writers,
    [name]: Math.round(quantile(limits, 0.5)),
    port: Math.round(quantile(ports, 0.5)),
    ratio: Number(quantile(ratios, 0.5).toFixed(2)),
    [`${name}AtBest`]: Math.round(quantile(limits, 0.9)),
    portAtBest: Math.round(quantile(ports, 0.9)),
  };
}
