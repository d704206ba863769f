import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { accountDecider } from '../../src/features/accounts/aggregate/accounts.decider.ts';
import { agentDecider } from '../../src/features/agents/aggregate/agents.decider.ts';
import { commandsDecider } from '../../src/features/commands/commands.decider.ts';
import { computerDecider } from '../../src/features/computers/aggregate/computers.decider.ts';
import { viewersDecider } from '../../src/features/computers/viewer/viewers.decider.ts';
import { customFilesDecider } from '../../src/features/custom-files/custom-files.decider.ts';
import { environmentDecider } from '../../src/features/environment/environment.decider.ts';
import { execDecider } from '../../src/features/exec/exec.decider.ts';
import { filesDecider } from '../../src/features/files/files.decider.ts';
import { secretsDecider } from '../../src/features/secrets/secrets.decider.ts';
import { sourceCredentialsDecider } from '../../src/features/secrets/source-credentials.decider.ts';
import { subscriptionDecider } from '../../src/features/subscriptions/subscriptions.decider.ts';
import { conversationDecider } from '../../src/features/messages/conversations/conversations.decider.ts';
import type { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import type { Decider, Json, SnapshotShape } from '../../src/eventsourcing/event-store/event-definition.ts';
import { categoryOf, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { sampleHistory } from './event-samples.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- each decider is typed by its own events
export type AnyDecider = Decider<any, any, any>;

const folder = resolve(import.meta.dirname, '../../eventstore/snapshots');

/** The deciders whose states are stored as snapshots, with the category of their streams. */
export const keptDeciders: [name: string, category: string, decider: AnyDecider][] = [
  ['account', 'account', accountDecider],
  ['agent', 'agent', agentDecider],
  ['commands', 'commands', commandsDecider],
  ['computer', 'computer', computerDecider],
  ['conversation', 'conversation', conversationDecider],
  ['custom-files', 'agent', customFilesDecider],
  ['environment', 'agent', environmentDecider],
  ['exec', 'exec', execDecider],
  ['files', 'files', filesDecider],
  ['secrets', 'secrets', secretsDecider],
  ['source-credentials', 'secrets', sourceCredentialsDecider],
  ['subscription', 'subscription', subscriptionDecider],
  ['viewers', 'viewer', viewersDecider],
];

export function shapeOf(decider: AnyDecider): SnapshotShape<unknown> {
  if (decider.snapshot === undefined) throw new Error('the decider declares no snapshot');
  return decider.snapshot;
}

/** Returns the state as a snapshot stores it. */
export function written({ toJson }: SnapshotShape<unknown>, state: unknown): Json {
  return JSON.parse(JSON.stringify(toJson === undefined ? state : toJson(state))) as Json;
}

/** Returns the events of the sample history, each in its newest version, that are in streams of the category. */
export function eventsOf(category: string, catalogue: EventCatalogue): StoredEvent[] {
  return sampleHistory('newest')
    .map((event) => catalogue.upcast(event))
    .filter(({ stream }) => categoryOf(stream) === category);
}

/** Returns the content of a snapshot after each of the events. */
export function snapshotsAfter(events: StoredEvent[], decider: AnyDecider): Record<string, Json> {
  let state = decider.initialState();
  const after: Record<string, Json> = {};
  for (const event of events) {
    state = decider.evolve(state, event);
    after[`${event.position} ${event.type}`] = written(shapeOf(decider), state);
  }
  return after;
}

/** Returns the name of the file that keeps the decider's snapshots. */
export const snapshotFile = (decider: AnyDecider) => `${shapeOf(decider).name}.v${shapeOf(decider).version}.json`;

/** Lists the files with kept snapshots. */
export const snapshotFiles = () => readdirSync(folder).toSorted();

/** Reads the kept snapshots of a decider, by the event after which each was made. */
export function storedSnapshots(decider: AnyDecider): Record<string, Json> {
  const file = join(folder, snapshotFile(decider));
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, Json>) : {};
}

/**
 * Keeps a snapshot after each sample event, and removes the files of former versions. Throws if one differs from what its version has kept:
 * a program of that version may have stored such a snapshot, so its file is left as it is.
 */
export function writeSnapshots(catalogue: EventCatalogue): void {
  const changed = keptDeciders.flatMap(([, category, decider]) => {
    const now = snapshotsAfter(eventsOf(category, catalogue), decider);
    const before = storedSnapshots(decider);
    const differing = Object.keys(now).filter((key) => key in before && JSON.stringify(now[key]) !== JSON.stringify(before[key]));
    const sorted = Object.entries({ ...now, ...before }).toSorted(([one], [other]) => (one < other ? -1 : 1));
    if (differing.length === 0) writeFileSync(join(folder, snapshotFile(decider)), `${JSON.stringify(Object.fromEntries(sorted))}\n`);
    return differing.map((key) => `${snapshotFile(decider)} after ${key}`);
  });
  const inUse = new Set(keptDeciders.map(([, , decider]) => snapshotFile(decider)));
  for (const file of snapshotFiles()) if (!inUse.has(file)) rmSync(join(folder, file));
  if (changed.length === 0) return;
  throw new Error(
    `These snapshots are not what their version has kept:\n  ${changed.join('\n  ')}\n` +
      "If the state has another form, raise the `version` in the decider's `snapshot`. If it has not, move the new sample behind the last one of " +
      'its stream in test/coverage/sample-log.ts. Then run this again.',
  );
}
