import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';

import { type DynamicModule, Module } from '@nestjs/common';
import { WebSocket } from 'ws';

import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { apiKeyEvents } from '../../src/features/api-keys/index.ts';
import {
  type ComputerAvailability,
  type Dial,
  ViewedDesktops,
  type ViewNeed,
} from '../../src/features/computers/viewer/viewed-desktops.ts';
import { viewerEvents } from '../../src/features/computers/viewer/viewers.events.ts';
import { ViewersModule } from '../../src/features/computers/viewers.module.ts';
import { Database } from '../../src/postgres/database/database.ts';
import type { Environment } from '../../src/kernel/config/setting-reader.ts';
import { ProblemError } from '../../src/kernel/errors/problem-error.ts';
import { startFeatureServer } from './feature-server.ts';
import type { TestResponse, TestServer } from './http-server.ts';
import { FakeRfbServer } from './fake-rfb-server.ts';
import { until } from './until.ts';

interface FakeComputer {
  accountId: string;
  fate: ComputerAvailability;
  desktop: { dial: () => Duplex | Promise<Duplex> };
}

/** Computers with desktops in memory, instead of those in containers. */
export class FakeDesktops extends ViewedDesktops {
  readonly computers = new Map<string, FakeComputer>();
  /** The computers that were woken, and those that are held, one for each hold. */
  readonly woken: string[] = [];
  readonly held: string[] = [];
  readonly moves: string[] = [];
  /** The computers that are reported as in use, with the number of repeated reports, by id. */
  readonly keptAwake = new Map<string, number>();

  requireOwned(computerId: string, accountId: string): Promise<void> {
    const isOwned = this.computers.get(computerId)?.accountId === accountId;
    return isOwned ? Promise.resolve() : Promise.reject(new ProblemError('computer_not_found', 'There is no such computer.'));
  }

  async whileAwake<T>({ computerId, accountId, wake }: ViewNeed, work: (dial: Dial) => Promise<T>): Promise<T> {
    await this.requireOwned(computerId, accountId);
    const computer = this.computers.get(computerId) as FakeComputer;
    if (computer.fate !== 'usable') {
      if (wake === false) throw new ProblemError('computer_asleep', 'The computer sleeps.');
      this.woken.push(computerId);
      computer.fate = 'usable';
    }
    this.held.push(computerId);
    try {
      return await work(async () => computer.desktop.dial());
    } finally {
      this.held.splice(this.held.indexOf(computerId), 1);
    }
  }

  async keepAwake(computerId: string): Promise<void> {
    this.keptAwake.set(computerId, (this.keptAwake.get(computerId) ?? 0) + 1);
  }

  async stopKeepingAwake(computerId: string): Promise<void> {
    this.keptAwake.delete(computerId);
  }

  availabilityOf(computerId: string): Promise<ComputerAvailability> {
    return Promise.resolve(this.computers.get(computerId)?.fate ?? 'deleted');
  }

  movePointer(computerId: string, x: number, y: number): void {
    this.moves.push(`${computerId} ${x},${y}`);
  }
}

@Module({})
class FakeDesktopsModule {}

/** A service with nothing but viewers, and computers of the account acme. */
export class ViewerFixture {
  private readonly open: Viewing[] = [];

  private constructor(
    readonly server: TestServer,
    readonly desktops: FakeDesktops,
  ) {}

  static async start(environment: Environment = {}): Promise<ViewerFixture> {
    const desktops = new FakeDesktops();
    const standIn: DynamicModule = {
      module: FakeDesktopsModule,
      providers: [{ provide: ViewedDesktops, useValue: desktops }],
      exports: [ViewedDesktops],
    };
    const definitions = [viewerEvents, apiKeyEvents].flatMap((events) => Object.values(events));
    return new ViewerFixture(
      await startFeatureServer({ modules: [ApiKeysModule, ViewersModule.of(standIn)], definitions, environment }),
      desktops,
    );
  }

  /** Adds an awake computer with a desktop in memory, or the given one. */
  computer(desktop: FakeComputer['desktop'] = new FakeRfbServer(), accountId = 'acme'): string {
    const id = randomUUID();
    this.desktops.computers.set(id, { accountId, fate: 'usable', desktop });
    return id;
  }

  ask(method: string, path: string, json?: unknown, credential = 'mk_acme'): Promise<TestResponse> {
    return this.server.request(method, path, { credential, json });
  }

  /** Creates a session of the computer, and returns its id and the path of its link. */
  async session(computerId: string, json: object = {}): Promise<{ id: string; path: string }> {
    const { status, text, json: made } = await this.ask('POST', `/api/v1/computers/${computerId}/viewer`, json);
    if (status !== 201) throw new Error(`no session was made: ${text}`);
    return { id: made.session_id as string, path: new URL(made.url as string).pathname };
  }

  browser(origin?: string | null): Browser {
    return new Browser(this.server, origin);
  }

  /** Opens the link in a browser of its own, or the given one, and connects until the test is over. */
  async connect(path: string, browser = this.browser()): Promise<Viewing> {
    const viewing = await browser.connect(path);
    this.open.push(viewing);
    return viewing;
  }

  /** Ends all connections, and waits until their ends are recorded. */
  async disconnectAll(): Promise<void> {
    this.open.splice(0).forEach(({ socket }) => socket.terminate());
    const database = this.server.app.get(Database, { strict: false });
    await until('all connections are recorded as ended', async () => {
      const rows = await database.query('select from viewer_connections');
      return rows.length === 0 ? true : undefined;
    });
  }

  sessions(computerId: string): Promise<Record<string, unknown>[]> {
    return this.ask('GET', `/api/v1/computers/${computerId}/sessions`).then(({ json }) => json);
  }
}

/** Returns the status and the code of a refusal. */
export function problemOf({ status, json }: TestResponse): unknown[] {
  return [status, (json as { code?: string } | null)?.code];
}

/** A browser, as far as a link is concerned: its cookies, and the origin of the page that it shows. */
export class Browser {
  private cookie: string | null = null;

  constructor(
    private readonly server: Pick<TestServer, 'url' | 'request'>,
    private readonly origin: string | null = server.url,
  ) {}

  /** Returns the same browser, with its cookies, on pages of another address of the service. */
  at(server: Pick<TestServer, 'url' | 'request'>): Browser {
    const same = new Browser(server);
    same.cookie = this.cookie;
    return same;
  }

  ticket(path: string, headers: Record<string, string> = {}): Promise<TestResponse> {
    return this.ask('POST', `${path}/tickets`, headers);
  }

  /** Gets a ticket, connects with it, and greets the service. */
  async connect(path: string): Promise<Viewing> {
    const { json, text } = await this.ticket(path);
    if (json?.ticket === undefined) throw new Error(`no ticket was given: ${text}`);
    const viewing = new Viewing(this.socket(path, json.ticket));
    await viewing.greet();
    return viewing;
  }

  socket(path: string, ticket: string): WebSocket {
    const url = `${this.server.url.replace('http', 'ws')}${path}/socket?ticket=${ticket}`;
    return new WebSocket(url, { headers: this.headers() });
  }

  /** Returns the status and the code with which a connection is refused. */
  refused(path: string, ticket: string): Promise<{ status: number; code: string }> {
    return new Promise((resolve, reject) => {
      const socket = this.socket(path, ticket);
      socket.on('error', () => undefined);
      socket.on('open', () => reject(new Error('the handshake was accepted')));
      socket.on('unexpected-response', (_, response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk.toString()));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, code: (JSON.parse(text) as { code: string }).code }));
      });
    });
  }

  private async ask(method: string, path: string, headers: Record<string, string>): Promise<TestResponse> {
    const answer = await this.server.request(method, path, { headers: { ...this.headers(), ...headers } });
    const [given] = answer.headers.getSetCookie();
    if (given !== undefined) this.cookie = given.split(';', 1)[0] ?? null;
    return answer;
  }

  private headers(): Record<string, string> {
    return { ...(this.origin && { origin: this.origin }), ...(this.cookie && { cookie: this.cookie }) };
  }
}

/** A connection of a browser to a desktop. */
export class Viewing {
  /** The bytes that came from the desktop, after the greeting. */
  received = Buffer.alloc(0);
  /** The states that the service sent. */
  readonly states: { mode: string; control: boolean }[] = [];
  readonly closed: Promise<[number, string]>;

  constructor(readonly socket: WebSocket) {
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) this.received = Buffer.concat([this.received, data]);
      else this.states.push(JSON.parse(data.toString()));
    });
    socket.on('error', () => undefined);
    this.closed = once(socket, 'close').then(([code, reason]) => [code as number, String(reason)]);
    this.closed.catch(() => undefined);
  }

  /** Sends a browser's greeting, and waits until the desktop has sent its size. */
  async greet(): Promise<void> {
    await once(this.socket, 'open');
    this.socket.send(Buffer.from('RFB 003.008\n'));
    this.socket.send(Buffer.of(1));
    this.socket.send(Buffer.of(1));
    const greeting = 'RFB 003.008\n'.length + 2 + 4;
    await this.has(greeting + 24);
    this.received = this.received.subarray(greeting);
  }

  send(...messages: Buffer[]): void {
    this.socket.send(Buffer.concat(messages));
  }

  /** Waits until so many bytes have arrived. */
  async has(bytes: number): Promise<void> {
    await until(`${bytes} bytes came from the desktop`, () => (this.received.length >= bytes ? true : undefined));
  }

  get control(): boolean | undefined {
    return this.states.at(-1)?.control;
  }
}
