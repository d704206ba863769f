/**
 * The connection to EventStoreDB.
 *
 * Owns: the current client, replaced clients that may still carry calls, and the slots and queue of calls. Does not own the calls' own
 * timeouts, or the subscriptions, which are notified when the client is replaced.
 *
 * N1  At most 64 calls run at a time. Others wait in order, at most 10,000 of them and each for 3 s.
 * N2  The client is replaced if its error means that it may never find a leader again, or if it has failed for 3 s; at most once in 1.5 s.
 *     Any response of the server, even a refusal, shows that the connection works.
 * N3  A replaced client is closed only after its calls had time to end.
 */
import { EventStoreDBClient, type Credentials } from '@eventstore/db-client';
import { Logger } from '@nestjs/common';
import { pause } from '../../../kernel/async/pause.ts';
import { EventStoreUnavailable } from '../event-store.ts';
import { credentialsOf, withDefaults } from '../../../kernel/config/eventstore-url.ts';
import { Names } from './names.ts';
import { faultOf, isTimeout, ResponseTimeout, breaksClient } from './faults.ts';

/** N1: The most calls at a time: a connection carries 100, and subscriptions need some of them. */
const CALLS_MAX = 64;
const WAITING_MAX = 10_000;
/** N1: The longest wait of a call for a slot, in ms. Calls that hang may hold every slot. */
const SLOT_TIMEOUT_MS = 3_000;
/** N2, N3: Intervals in ms. */
const RENEW_EVERY_MS = 1_500;
const FAILING_FOR_MS = 3_000;
const OLD_CLIENT_GRACE_MS = 15_000;

const logger = new Logger('EventStore');

interface ClientHandle {
  client: EventStoreDBClient;
  inFlight: number;
  /** The value is true if the client ever had a connection. One that never had would start to discover servers when it is closed. */
  wasConnected: boolean;
}

/** The private members of the client that are used here. */
interface ClientInternals {
  handleError(client: unknown, error: unknown): Promise<void>;
  getChannel(): Promise<{ close(): void }>;
}

/** The connection of an event store to its server. See N1 to N3. */
export class Connection {
  /** With credentials, the client uses the plain Append call, and a lost connection fails only the calls that were on it. */
  readonly credentials: Credentials;
  private readonly url: string;
  private readonly renewalListeners = new Set<() => void>();
  private readonly queue: (() => void)[] = [];
  /** The replaced clients that may still carry calls. */
  private readonly old = new Set<ClientHandle>();
  private current: ClientHandle;
  private inFlight = 0;
  private renewedAt = -Infinity;
  private failingSince: number | null = null;
  private closed = false;

  readonly names: Names;

  constructor(url: string, prefix: string | null) {
    this.names = new Names(prefix);
    this.url = withDefaults(url);
    this.credentials = credentialsOf(url) ?? { username: 'mooring', password: 'not sent without TLS' };
    this.current = open(this.url);
  }

  /**
   * Runs a call on the client. `work` limits its own time and throws `ResponseTimeout` when that is over; its error is passed on unchanged.
   * Throws `EventStoreUnavailable` if 10 000 calls are already waiting, the call gets no slot within 3 s, or the connection is closed.
   */
  async call<T>(work: (client: EventStoreDBClient) => Promise<T>): Promise<T> {
    await this.acquireSlot();
    const held = this.current;
    held.inFlight += 1;
    try {
      const result = await work(held.client);
      held.wasConnected = true;
      this.noteSuccess();
      return result;
    } catch (error) {
      this.noteFailure(held, error);
      throw error;
    } finally {
      held.inFlight -= 1;
      this.releaseSlot();
    }
  }

  /** The client for a subscription's call, which does not count towards the 64 calls. */
  get client(): EventStoreDBClient {
    return this.current.client;
  }

  noteSuccess(): void {
    this.failingSince = null;
  }

  /** Calls the listener after the client was replaced, so that subscriptions move to the new one. */
  onRenewed(listener: () => void): void {
    this.renewalListeners.add(listener);
  }

  /** Replaces the client, unless it was replaced less than 1.5 s ago. */
  renew(): void {
    const now = performance.now();
    if (this.closed || now - this.renewedAt < RENEW_EVERY_MS) return;
    this.renewedAt = now;
    this.failingSince = null;
    const old = this.current;
    this.current = open(this.url);
    this.old.add(old);
    setTimeout(() => this.old.delete(old) && void closeClient(old), OLD_CLIENT_GRACE_MS).unref();
    for (const listener of this.renewalListeners) listener();
  }

  /** Refuses new calls, waits for those in flight, and closes all clients. */
  async close(): Promise<void> {
    this.closed = true;
    while (this.inFlight > 0 || this.queue.length > 0) await pause(5);
    await Promise.all([...this.old, this.current].map(closeClient));
    this.old.clear();
  }

  private async acquireSlot(): Promise<void> {
    if (this.closed) throw new EventStoreUnavailable(new Error('the event store is closed'));
    if (this.queue.length >= WAITING_MAX) throw new EventStoreUnavailable(new Error('too many calls are waiting'));
    // N1: A call that ends passes its slot to the first that waits, so that no later call overtakes it.
    if (this.inFlight >= CALLS_MAX) await this.waitForSlot();
    else this.inFlight += 1;
  }

  private async waitForSlot(): Promise<void> {
    let enter: () => void = () => undefined;
    const entered = new Promise<void>((resolve) => (enter = resolve));
    this.queue.push(enter);
    await withTimeout(SLOT_TIMEOUT_MS, entered).catch((error: unknown) => {
      const place = this.queue.indexOf(enter);
      // The call got a slot just before its wait timed out.
      if (place === -1) return;
      this.queue.splice(place, 1);
      throw new EventStoreUnavailable(error);
    });
  }

  private releaseSlot(): void {
    const next = this.queue.shift();
    if (next) next();
    else this.inFlight -= 1;
  }

  private noteFailure(held: ClientHandle, error: unknown): void {
    // N2
    if (isResponse(error)) return this.noteSuccess();
    if (held !== this.current) return;
    const isAnother = this.failingSince !== null;
    this.failingSince ??= performance.now();
    const isSpoilt = breaksClient(error) || (isTimeout(error) && isAnother);
    if (!isSpoilt && performance.now() - this.failingSince < FAILING_FOR_MS) return;
    logger.warn(`The connection to the event store is replaced (${faultOf(error)}): ${(error as Error).message}`);
    this.renew();
  }
}

function isResponse(error: unknown): boolean {
  return /^(wrong-expected-version|stream-(not-found|deleted)|maximum-append-size-exceeded)$/.test((error as { type?: string }).type ?? '');
}

function open(url: string): ClientHandle {
  const client = EventStoreDBClient.connectionString(url);
  const inner = client as unknown as ClientInternals;
  const original = inner.handleError.bind(inner);
  // The client calls this method without awaiting it; a rejection would end the process.
  inner.handleError = (...given) => original(...given).catch(() => undefined);
  return { client, inFlight: 0, wasConnected: false };
}

async function closeClient({ client, wasConnected: worked }: ClientHandle): Promise<void> {
  void client.dispose().catch(() => undefined);
  if (!worked) return;
  // Disposing the client ends its streams but leaves its connection open.
  await (client as unknown as ClientInternals).getChannel().then(
    (channel) => channel.close(),
    () => undefined,
  );
}

/** Returns the promise's result, or throws `ResponseTimeout` after that many milliseconds. */
export async function withTimeout<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new ResponseTimeout(milliseconds)), milliseconds)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
