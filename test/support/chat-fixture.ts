import { v7 as uuidv7 } from 'uuid';

import { Keyring } from '../../src/crypto/keyring.ts';
import { EventStore, type NewEvent, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { AgentFixture } from './agent-fixture.ts';
import { FaultyRuntime, FaultyRuntimeModule } from './faulty-runtime.ts';
import { startFeatureServer } from './feature-server.ts';
import { runningFeatures } from './features.ts';
import type { TestServer } from './http-server.ts';

export interface ChatMessage {
  id: string;
  role: string;
  text: string;
  status: string;
}

/** A message as the agent's program receives it. */
export interface ReceivedMessage {
  id: string;
  channel: string;
  conversation_id: string;
  text: string;
  payload: unknown;
  headers: Record<string, string>;
  url: string | null;
  content_type: string | null;
  attachments: object[];
}

/** One agent of the account acme, whose program does what its messages say. */
export class ChatFixture {
  readonly fixture: AgentFixture;
  agentId = '';

  constructor(
    readonly server: TestServer,
    readonly runtime: FaultyRuntime,
  ) {
    this.fixture = new AgentFixture(server);
  }

  ask(method: string, path: string, json?: unknown, credential = 'mk_acme') {
    return this.server.request(method, path, { credential, json, headers: { prefer: 'wait=25' } });
  }

  async deployed(): Promise<string> {
    const agentId = await this.fixture.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
    expect(await this.ask('POST', `/api/v1/agents/${agentId}/deploy`)).toMatchObject({ status: 200, json: { status: 'active' } });
    return agentId;
  }

  chat(message: string, conversation_id?: string, agentId = this.agentId) {
    return this.ask('POST', `/api/agents/${agentId}/chat`, { message, conversation_id });
  }

  /** Sends a chat message with an Idempotency-Key. */
  chatOnce(key: string, message: string, conversation_id?: string, agentId = this.agentId) {
    const json = { message, conversation_id };
    return this.server.request('POST', `/api/agents/${agentId}/chat`, { credential: 'mk_acme', json, headers: { 'idempotency-key': key } });
  }

  /** Writes past exchanges into a new conversation and returns its id. */
  async past(exchanges: [question: string, answer: string][]): Promise<string> {
    const conversation = uuidv7();
    const store = this.server.app.get(EventStore, { strict: false });
    const keyring = this.server.app.get(Keyring, { strict: false });
    const actor = { kind: 'system' as const, id: 'test', name: 'test' };
    const metadata: NewEvent['metadata'] = { actor, account_id: 'acme', request_id: null, causation_id: null, ip: null };
    const event = (type: string, data: NewEvent['data']): NewEvent => ({ id: uuidv7(), type, schemaVersion: 1, data, metadata });
    const sealed = async (context: string, text: string) => ({ ...(await keyring.seal(this.agentId, context, text)) });
    const events = [event('ConversationStarted', { agent_id: this.agentId, account_id: 'acme', channel: 'chat' })];
    for (const [question, answer] of exchanges) {
      const message_id = uuidv7();
      const text = await sealed(`message ${message_id} text`, question);
      const reply = await sealed(`message ${message_id} reply`, answer);
      events.push(event('MessageAccepted', { message_id, channel: 'chat', text }), event('MessageDelivered', { message_id, reply }));
    }
    const size = Math.max(1, Math.min(400, Math.floor(700_000 / Math.max(...events.map(({ data }) => JSON.stringify(data).length)))));
    for (let from = 0; from < events.length; from += size)
      await store.append(`conversation-${conversation}`, from === 0 ? 'no_stream' : from - 1, events.slice(from, from + size));
    return conversation;
  }

  /** Returns the pages of a thread as the API returns them, the latest first. */
  async pages(conversationId: string, query = '', agentId = this.agentId): Promise<ChatMessage[][]> {
    const pages: ChatMessage[][] = [];
    let path: string | undefined = `/api/agents/${agentId}/conversations/${conversationId}/messages${query}`;
    while (path !== undefined) {
      const page = await this.ask('GET', path);
      expect(page.status).toBe(200);
      pages.push(page.json);
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    return pages;
  }

  async thread(conversationId: string): Promise<ChatMessage[]> {
    return (await this.pages(conversationId, '?limit=200')).toReversed().flat();
  }

  /** Returns the messages that the agent's program received, in order: id and text. */
  async receivedMessages(): Promise<[string, string][]> {
    return (await this.linesOf('heard', this.agentId)).map((line) => [line.slice(0, 36), line.slice(37)]);
  }

  /** Returns the complete messages that the agent's program received, in order. */
  async messages(agentId: string): Promise<ReceivedMessage[]> {
    return (await this.linesOf('messages', agentId)).map((line) => JSON.parse(line) as ReceivedMessage);
  }

  private async linesOf(file: string, agentId: string): Promise<string[]> {
    const [container] = (await this.runtime.inner.inspect(agentId)).containers;
    const { host, port } = await this.runtime.inner.address({ agentId, generation: container?.generation ?? 0 }, 8080);
    const text = await (await fetch(`http://${host}:${port}/file/${file}`)).text();
    return text.trim().split('\n');
  }

  async events(conversationId: string): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    const store = this.server.app.get(EventStore, { strict: false });
    for await (const event of store.readStream(`conversation-${conversationId}`)) events.push(event);
    return events;
  }
}

/** Starts a server with the accounts acme and other, and a deployed agent of acme that does what its messages say. */
export async function startChatFixture(environment: Record<string, string>): Promise<ChatFixture> {
  let runtime: FaultyRuntime | undefined;
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (runtime = opened)));
  const server = await startFeatureServer({ ...features, environment });
  const talk = new ChatFixture(server, runtime as FaultyRuntime);
  await talk.fixture.account('acme', 20);
  await talk.fixture.account('other', 20);
  talk.agentId = await talk.deployed();
  return talk;
}
