import { randomUUID } from 'node:crypto';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { status, type ServerWritableStream, type ServiceError } from '@grpc/grpc-js';
import type { LogRecord, MemoryLog } from './memory-log.ts';
import {
  caughtUpResponse,
  checkpointResponse,
  confirmationResponse,
  deleted,
  eventResponse,
  failure,
  notFoundResponse,
  streamName,
  tooSlow,
} from './wire.ts';

type Options = InstanceType<typeof streams.ReadReq.Options>;
type Response = InstanceType<typeof streams.ReadResp>;
export type ReadCall = ServerWritableStream<InstanceType<typeof streams.ReadReq>, Response>;

const backwards = streams.ReadReq.Options.ReadDirection.BACKWARDS;
/** The number of unread events after which a live subscription is dropped. */
const maxUnread = 200;
const checkpointUnit = 32;

/**
 * Returns the result of a read, in order, or null if there is no such stream. Throws the errors that are sent to the client. With `until`,
 * the log is read as it was at that position.
 */
export function found(log: MemoryLog, options: Options, until: bigint | undefined): LogRecord[] | null {
  const count = Number(options.getCount());
  if (count === 0) throw failure(status.UNKNOWN, 'Unexpected ReadStreamResult: Error');
  const descending = options.getReadDirection() === backwards;
  if (options.hasAll()) return foundInAll(log, options, descending, until).slice(0, count);
  const stream = options.getStream();
  const name = streamName(stream?.getStreamIdentifier());
  if (log.isTombstoned(name)) throw deleted(name);
  const visible = log.visible(name, until);
  if (visible === null) return null;
  if (stream?.hasEnd() && !descending) throw failure(status.UNKNOWN, 'Reading forwards from the end');
  const from = stream?.hasRevision() ? Number(stream.getRevision()) : descending ? Infinity : 0;
  const reached = visible.filter(({ revision }) => (descending ? revision <= from : revision >= from));
  return (descending ? reached.toReversed() : reached).slice(0, count);
}

function foundInAll(log: MemoryLog, options: Options, descending: boolean, until: bigint | undefined): LogRecord[] {
  const all = until === undefined ? log.records : log.records.filter(({ position }) => position < until);
  const place = options.getAll()?.getPosition();
  const from = place ? BigInt(place.getCommitPosition()) : null;
  if (from !== null && from < log.end && log.records[lowest(log.records, from)]?.position !== from)
    throw failure(status.UNKNOWN, 'Unexpected ReadAllResult: InvalidPosition');
  if (!descending) return from === null ? all : all.slice(lowest(all, from));
  return (from === null ? all : all.slice(0, lowest(all, from))).toReversed();
}

/** Returns the index of the first record that is not before the position. */
function lowest(records: LogRecord[], position: bigint): number {
  let [low, high] = [0, records.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((records[middle] as LogRecord).position < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Sends the records no faster than the client reads them. */
export async function sendAll(call: ReadCall, records: LogRecord[] | null, name: string, twice: boolean): Promise<void> {
  if (records === null) call.write(notFoundResponse(name));
  for (const record of records ?? [])
    for (let time = 0; time < (twice ? 2 : 1); time += 1) {
      if (call.cancelled || call.destroyed) return;
      if (!call.write(eventResponse(record))) await drained(call);
    }
  call.end();
}

function drained(call: ReadCall): Promise<void> {
  const ends = ['drain', 'cancelled', 'close', 'error'];
  return new Promise((resolve) => {
    const done = () => {
      for (const end of ends) call.off(end, done);
      resolve();
    };
    for (const end of ends) call.on(end, done);
  });
}

/** A subscription to the whole log, from its confirmation to its end. */
export class FakeSubscription {
  /** While the value is true, the subscription is open but sends nothing. */
  silent: boolean;
  /** The value is true if every event is sent twice. */
  private readonly twice: boolean;
  private readonly examine: (record: LogRecord) => boolean;
  private readonly checkpointEvery: number;
  private readonly stopListening: () => void;
  private examined = 0;
  private unread = 0;
  private ended = false;

  constructor(
    private readonly call: ReadCall,
    private readonly log: MemoryLog,
    options: Options,
    { silent, twice }: { silent: boolean; twice: boolean },
    private readonly onEnd: (subscription: FakeSubscription) => void,
  ) {
    this.silent = silent;
    this.twice = twice;
    this.examine = filterOf(options);
    this.checkpointEvery = checkpointUnit * Math.max(1, options.getFilter()?.getCheckpointintervalmultiplier() ?? 1);
    call.write(confirmationResponse(randomUUID()));
    const place = options.getAll()?.getPosition();
    const from = place ? BigInt(place.getCommitPosition()) : options.getAll()?.hasStart() ? -1n : log.end;
    const missed = log.records.slice(lowest(log.records, from)).filter(({ position }) => position > from);
    this.stopListening = log.onWritten((written) => this.send(written, true));
    this.send(missed, false);
    call.write(caughtUpResponse());
    call.on('cancelled', () => this.end());
    call.on('close', () => this.end());
    call.on('error', () => this.end());
  }

  drop(error: ServiceError): void {
    if (this.ended) return;
    this.end();
    this.call.emit('error', error);
  }

  private send(records: LogRecord[], live: boolean): void {
    for (const [index, record] of records.entries()) {
      if (this.ended || this.silent) return;
      if (this.examine(record)) for (let time = 0; time < (this.twice ? 2 : 1); time += 1) this.write(eventResponse(record), live);
      this.examined += 1;
      if (this.examined % this.checkpointEvery !== 0) continue;
      const next = records[index + 1]?.position;
      if (live) this.write(checkpointResponse(record.position, true), live);
      else if (next !== undefined) this.write(checkpointResponse(next, false), live);
    }
  }

  private write(response: Response, live: boolean): void {
    if (this.ended) return;
    this.unread += 1;
    this.call.write(response, () => (this.unread -= 1));
    if (live && this.unread > maxUnread) this.drop(tooSlow());
  }

  private end(): void {
    if (this.ended) return;
    this.ended = true;
    this.stopListening();
    this.onEnd(this);
  }
}

function filterOf(options: Options): (record: LogRecord) => boolean {
  const filter = options.getFilter();
  if (!filter) return () => true;
  const expression = filter.getStreamIdentifier() ?? filter.getEventType();
  const regex = expression?.getRegex();
  const pattern = regex ? new RegExp(regex) : null;
  const prefixes = expression?.getPrefixList() ?? [];
  const text = (record: LogRecord) => (filter.hasStreamIdentifier() ? record.stream : record.type);
  return (record) => (pattern ? pattern.test(text(record)) : prefixes.some((prefix) => text(record).startsWith(prefix)));
}
