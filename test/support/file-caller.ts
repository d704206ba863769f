import { EventStore, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import type { TestResponse } from './http-server.ts';
import type { ChatFixture } from './chat-fixture.ts';

/** One field of a form: a text, or a file with its name. */
export type Field = [name: string, value: string] | [name: string, value: Blob, fileName: string];

export const file = (name: string, content: string | Buffer): Field => ['file', new Blob([content]), name];

/** The form of the response to a refused call. */
export const problem = (status: number, code: string) => ({ status, json: { status, code } });

export function query(path: string): string {
  return `?path=${encodeURIComponent(path)}`;
}

interface Uploaded {
  status: number;
  json: Record<string, unknown>;
  headers: Headers;
}

/** Calls the routes of an agent's files as the account acme, or with another credential. */
export class FileCaller {
  constructor(private readonly talk: ChatFixture) {}

  address(action: string): string {
    return `/api/agents/${this.talk.agentId}/files/${action}`;
  }

  ask(method: string, action: string, json?: object, credential = 'mk_acme'): Promise<TestResponse> {
    return this.talk.server.request(method, this.address(action), { credential, json });
  }

  list(path?: string, credential?: string): Promise<TestResponse> {
    return this.ask('GET', `list${path === undefined ? '' : query(path)}`, undefined, credential);
  }

  write(path: string, content: string, credential?: string): Promise<TestResponse> {
    return this.ask('PUT', 'write', { path, content }, credential);
  }

  mkdir(path: string, parents?: boolean): Promise<TestResponse> {
    return this.ask('POST', 'mkdir', { path, parents });
  }

  move(from: string, to: string): Promise<TestResponse> {
    return this.ask('POST', 'move', { from, to });
  }

  remove(path: string): Promise<TestResponse> {
    return this.ask('DELETE', `delete${query(path)}`);
  }

  /** Requests a file and returns the response with an unread body. */
  download(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Response> {
    const all = { authorization: 'Bearer mk_acme', ...headers };
    return fetch(`${this.talk.server.url}${this.address('download')}${query(path)}`, { method, headers: all });
  }

  async textOf(path: string): Promise<string> {
    return (await this.download(path)).text();
  }

  upload(...fields: Field[]): Promise<Uploaded> {
    return this.uploadWith({}, ...fields);
  }

  async uploadWith(headers: Record<string, string>, ...fields: Field[]): Promise<Uploaded> {
    const form = new FormData();
    for (const [name, value, fileName] of fields)
      if (typeof value === 'string') form.append(name, value);
      else form.append(name, value, fileName);
    const response = await fetch(`${this.talk.server.url}${this.address('upload')}`, {
      method: 'POST',
      headers: { authorization: 'Bearer mk_acme', ...headers },
      body: form,
    });
    return { status: response.status, json: (await response.json()) as Record<string, unknown>, headers: response.headers };
  }

  async namesIn(path: string): Promise<string[]> {
    return ((await this.list(path)).json.entries as { name: string }[]).map(({ name }) => name);
  }

  /** Runs a command in the agent. */
  async run(command: string): Promise<{ stdout: string }> {
    return (await this.talk.ask('POST', `/api/agents/${this.talk.agentId}/exec`, { command })).json;
  }

  /** Returns the events of the agent's files. */
  async recorded(): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    const store = this.talk.server.app.get(EventStore, { strict: false });
    for await (const event of store.readStream(`files-${this.talk.agentId}`)) events.push(event);
    return events;
  }
}
