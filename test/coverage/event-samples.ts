import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { keyRotationDecider } from '../../src/features/admin/keys/keys.decider.ts';
import { accountDecider } from '../../src/features/accounts/aggregate/accounts.decider.ts';
import { agentDecider } from '../../src/features/agents/aggregate/agents.decider.ts';
import { computerDecider } from '../../src/features/computers/aggregate/computers.decider.ts';
import { viewersDecider } from '../../src/features/computers/viewer/viewers.decider.ts';
import { customFilesDecider } from '../../src/features/custom-files/custom-files.decider.ts';
import { apiKeyDecider } from '../../src/features/api-keys/api-keys.decider.ts';
import { environmentDecider } from '../../src/features/environment/environment.decider.ts';
import { webhookTokenDecider } from '../../src/features/webhooks/webhook-tokens.decider.ts';
import { commandsDecider } from '../../src/features/commands/commands.decider.ts';
import { execDecider } from '../../src/features/exec/exec.decider.ts';
import { filesDecider } from '../../src/features/files/files.decider.ts';
import { secretsDecider } from '../../src/features/secrets/secrets.decider.ts';
import { sourceCredentialsDecider } from '../../src/features/secrets/source-credentials.decider.ts';
import { subscriptionDecider } from '../../src/features/subscriptions/subscriptions.decider.ts';
import { conversationDecider } from '../../src/features/messages/conversations/conversations.decider.ts';
import type { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import type { Decider, Json, JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import { categoryOf, type EventMetadata, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { fold, keysOf, type Row } from '../../src/eventsourcing/projections/tables/fold.ts';
import type { Projection } from '../../src/eventsourcing/projections/projection.ts';
import { rebuildDecider } from '../../src/eventsourcing/projections/rebuild/rebuild.decider.ts';
import { follows, foldedProjections } from '../support/read-models.ts';
import { eventFiles, sectionOf, streams } from './event-catalogue.ts';
import { declaredShapes, type Shape } from './event-shapes.ts';
import { sampleLog, type SampleEvent } from './sample-log.ts';

const root = resolve(import.meta.dirname, '../..');
export const catalogueFile = join(root, 'eventstore/catalogue.json');
export const foldedFile = (which: 'oldest' | 'newest') => join(root, `eventstore/folded-${which}.json`);
export const samplesFolder = join(root, 'eventstore/samples');
export const sumsFile = join(samplesFolder, 'SHA256SUMS');

/** One version of one event type. */
export interface CatalogueEntry {
  type: string;
  version: number;
  /** The category of the streams that contain it. */
  stream: string;
  data: Shape;
}

/** A stored event as its file contains it. */
interface SampleFile {
  type: string;
  schema_version: number;
  id: string;
  stream: string;
  revision: number;
  position: string;
  at: string;
  data: JsonObject;
  metadata: EventMetadata;
}

export function readCatalogue(): CatalogueEntry[] {
  return existsSync(catalogueFile) ? (JSON.parse(readFileSync(catalogueFile, 'utf8')) as CatalogueEntry[]) : [];
}

/** Returns the newest version of every type from the sources, and the recorded older versions, whose types the sources no longer have. */
export function catalogueOf(versionOf: (type: string) => number, written: CatalogueEntry[]): CatalogueEntry[] {
  const declared = declaredShapes(eventFiles);
  return eventFiles.flatMap((file, index) => {
    const stream = /`(\w+)-/.exec(streams[sectionOf(file)] ?? '')?.[1] ?? '';
    return [...(declared[index] ?? [])].flatMap(([type, data]) => [
      ...written.filter((entry) => entry.type === type && entry.version < versionOf(type)),
      { type, version: versionOf(type), stream, data },
    ]);
  });
}

/** Returns the name of a sample's file. A full sample has the optional members of its type as well. */
export const nameOf = ({ type, version, isFull = false }: { type: string; version: number; isFull?: boolean }) =>
  `${type}.v${version}${isFull ? FULL : ''}.json`;

const FULL = '.full';

/** Returns whether the file of that name holds a full sample. */
export const isFullName = (name: string) => name.endsWith(`${FULL}.json`);

export function sampleNames(): string[] {
  return readdirSync(samplesFolder)
    .filter((name) => name.endsWith('.json'))
    .toSorted();
}

/** Reads the recorded checksums, by file. */
export function sums(): Map<string, string> {
  const lines = existsSync(sumsFile) ? readFileSync(sumsFile, 'utf8').trim().split('\n') : [];
  return new Map(lines.map((line) => line.split('  ').toReversed() as [string, string]));
}

export function sumOf(name: string): string {
  return createHash('sha256')
    .update(readFileSync(join(samplesFolder, name)))
    .digest('hex');
}

/**
 * Writes a file and its checksum for each newest version that has none; existing files are never touched. Throws if an event has no place in
 * the sample history.
 */
export function writeMissingSamples(definitions: readonly { type: string; version: number }[]): void {
  const known = sums();
  const missing = definitions.filter((definition) => {
    const samples = sampleLog.filter(({ event }) => event.type === definition.type);
    for (const sample of samples) {
      const name = nameOf({ ...definition, isFull: sample.isFull });
      const file = join(samplesFolder, name);
      if (!existsSync(file)) writeFileSync(file, `${JSON.stringify(sampleFile(sample, definition.version), null, 2)}\n`);
      if (!known.has(name)) writeFileSync(sumsFile, `${sumOf(name)}  ${name}\n`, { flag: 'a' });
    }
    return samples.length === 0;
  });
  if (missing.length === 0) return;
  throw new Error(`test/coverage/sample-log.ts has no event for ${missing.map(nameOf).join(', ')}: give it a place there.`);
}

function sampleFile({ place, stream, event }: SampleEvent, version: number): SampleFile {
  const before = sampleLog.filter((other) => other.stream === stream && other.place < place);
  const actor = { kind: 'api_key' as const, id: 'key-1', name: 'ci' };
  return {
    type: event.type,
    schema_version: version,
    id: `01890a5d-ac96-774b-bcce-${String(place * 100 + version).padStart(12, '0')}`,
    stream,
    revision: before.length,
    position: String(place).padStart(20, '0'),
    at: new Date(Date.UTC(2026, 2, 1, 12, 0, place)).toISOString(),
    data: event.data as JsonObject,
    metadata: { actor, account_id: '01890a5d-ac96-774b-bcce-b302099a8001', request_id: 'request-1', causation_id: null, ip: '192.0.2.7' },
  };
}

export function readSample(name: string): StoredEvent {
  const { schema_version: schemaVersion, ...event } = JSON.parse(readFileSync(join(samplesFolder, name), 'utf8')) as SampleFile;
  return { ...event, schemaVersion };
}

/**
 * Returns one event of every type, and its full one if there is one, in its oldest or its newest version, in the order in which they
 * happened.
 */
export function sampleHistory(which: 'oldest' | 'newest'): StoredEvent[] {
  const chosen = new Map<string, StoredEvent>();
  for (const name of sampleNames()) {
    const event = readSample(name);
    const key = `${event.type}${isFullName(name) ? FULL : ''}`;
    const other = chosen.get(key);
    const older = other !== undefined && event.schemaVersion < other.schemaVersion;
    if (other === undefined || older === (which === 'oldest')) chosen.set(key, event);
  }
  return [...chosen.values()].toSorted((a, b) => (a.position < b.position ? -1 : 1));
}

// Each decider is typed by its own events.
// oxlint-disable-next-line typescript/no-explicit-any -- as above
const deciders: Record<string, Record<string, Decider<any, any, any>>> = {
  account: { account: accountDecider },
  apiKey: { apiKey: apiKeyDecider },
  agent: { agent: agentDecider, environment: environmentDecider, 'custom-files': customFilesDecider },
  computer: { computer: computerDecider },
  viewer: { viewers: viewersDecider },
  conversation: { conversation: conversationDecider },
  exec: { exec: execDecider },
  commands: { commands: commandsDecider },
  webhook: { webhook: webhookTokenDecider },
  files: { files: filesDecider },
  subscription: { subscription: subscriptionDecider },
  secrets: { secrets: secretsDecider, 'source-credentials': sourceCredentialsDecider },
  projection: { rebuild: rebuildDecider },
  masterKeyRotation: { 'key-rotation': keyRotationDecider },
};

/** Returns the changes that every decider and every projection makes at each event of the history. */
export function foldHistory(events: StoredEvent[], catalogue: EventCatalogue): unknown[] {
  const projections = foldedProjections(catalogue);
  const tables = new Map(projections.map((projection) => [projection, new Map<string, Row>()]));
  const states = new Map<string, unknown>();
  return events.map((stored) => {
    const event = catalogue.upcast(stored);
    const decided = Object.entries(deciders[categoryOf(event.stream)] ?? {}).map(([name, decider]) => {
      const key = `${name} ${event.stream}`;
      const before = states.has(key) ? states.get(key) : decider.initialState();
      states.set(key, decider.evolve(before, event));
      return [name, changed(plain(before), plain(states.get(key)))];
    });
    const following = projections.filter((projection) => follows(projection, event));
    const rows = following.map((projection) => [projection.name, taken(projection, event, tables.get(projection))]);
    return { position: event.position, type: event.type, states: Object.fromEntries(decided), rows: Object.fromEntries(rows) };
  });
}

/** Returns the changes of rows by key; null means that the row was removed. */
function taken(projection: Projection, event: StoredEvent, table: Map<string, Row> = new Map()): unknown {
  const { keys } = keysOf(projection, [event]);
  const standing = new Map((keys[0] ?? []).flatMap((key) => (table.has(key) ? [[key, table.get(key) as Row] as const] : [])));
  const { written, removed, failure } = fold(projection, [event], standing);
  if (failure !== null) throw failure.error;
  const changes = written.map((row) => {
    const key = String(row[projection.table.key]);
    const change = changed(plain(table.get(key)), plain(row));
    table.set(key, row);
    return [key, change];
  });
  for (const key of removed) table.delete(key);
  return Object.fromEntries([...changes, ...removed.map((key) => [key, null])]);
}

/** Converts a state to JSON, with maps as their entries. */
function plain(state: unknown): Json {
  const entries = (value: unknown): unknown => {
    if (value instanceof Map) return [...value];
    return value !== null && typeof value === 'object' && 'size' in value ? { size: value.size } : value;
  };
  return JSON.parse(JSON.stringify(state ?? null, (_, value: unknown) => entries(value))) as Json;
}

/** Returns the members that changed, with their new values. */
function changed(before: Json, after: Json): Json {
  if (!isObject(before) || !isObject(after)) return after;
  const names = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return Object.fromEntries(names.map((name) => [name, changed(before[name] ?? null, after[name] ?? null)]));
}

function isObject(value: Json): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
