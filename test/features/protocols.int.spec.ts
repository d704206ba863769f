import { agentConnectionPool } from '../../src/agent-protocol/agent-connection-pool.ts';
import type { ProtocolSpec } from '../../src/agent-protocol/protocol.ts';
import type { ProtocolName } from '../../src/agent-protocol/protocol-names.ts';
import { Templates } from '../../src/features/templates/index.ts';
import { ProtocolAgent } from '../support/protocol-agents/protocol-agent.ts';
import { ModelServer } from '../support/model-server.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';

/** Chats through the API with agents that really speak the other protocols. */

let talk: ChatFixture;

beforeAll(async () => void (talk = await startChatFixture({})));
afterAll(() => talk?.server.close());

const kinds: [string, ProtocolName, () => Promise<ProtocolAgent>, string][] = [
  ['LangGraph', 'langgraph', () => ProtocolAgent.langgraph(), 'stream'],
  ['A2A 1.0', 'a2a', () => ProtocolAgent.a2a('1.0'), 'work'],
  ['A2A 0.3', 'a2a', () => ProtocolAgent.a2a('0.3'), 'work'],
];

describe.each(kinds)('a chat with an agent that speaks %s', (_, name, start, streamed) => {
  let agent: ProtocolAgent;

  beforeAll(async () => {
    agent = await start();
    const templates = talk.server.app.get(Templates, { strict: false });
    const hello = templates.get('hello') as NonNullable<ReturnType<Templates['get']>>;
    jest.spyOn(templates, 'get').mockReturnValue({ ...hello, protocol: { name } });
    jest.spyOn(talk.runtime.inner, 'address').mockResolvedValue({ host: agent.host, port: agent.port });
    agentConnectionPool.closeIdle();
  });

  afterAll(async () => {
    jest.restoreAllMocks();
    await agent?.stop();
  });

  it('continues if the agent remembers it, and is in the thread', async () => {
    const first = (await talk.chat('first')).json;
    expect(first.response).toMatch(/^1: first/);
    expect((await talk.chat('second', first.conversation_id)).json.response).toMatch(/^2: first, second/);
    expect((await talk.chat('elsewhere')).json.response).toMatch(/^1: elsewhere/);
    expect((await talk.thread(first.conversation_id)).map(({ role }) => role)).toEqual(['user', 'agent', 'user', 'agent']);
  });

  it('streams', async () => {
    const path = `/api/agents/${talk.agentId}/chat`;
    const headers = { accept: 'text/event-stream' };
    const { text } = await talk.server.request('POST', path, { credential: 'mk_acme', json: { message: streamed }, headers });
    const events = [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, event, data]) => ({ event, data: JSON.parse(data ?? '') }));
    const deltas = events.filter(({ event }) => event === 'delta').map(({ data }) => data.text as string);
    expect(events.map(({ event }) => event)).toEqual(['accepted', ...deltas.map(() => 'delta'), 'reply']);
    expect(deltas.join('')).toBe(events.at(-1)?.data.response);
  });

  if (name === 'a2a')
    it('answers the question of a task that needs input', async () => {
      const asked = (await talk.chat('ask')).json;
      expect(asked.response).toBe('which one?');
      expect((await talk.chat('the red one', asked.conversation_id)).json.response).toBe('you said the red one');
      expect((await talk.chat('more', asked.conversation_id)).json.response).toBe('3: ask, the red one, more (3 ids)');
    });

  it('fails with what the agent said', async () => {
    expect(await talk.chat('fail')).toMatchObject({ status: 502, json: { code: 'agent_failed', detail: expect.stringMatching(/failed/) } });
  });
});

describe('a chat with an agent that speaks chat completions', () => {
  let agent: ModelServer;
  const speaks = async (protocol: ProtocolSpec) => {
    const templates = talk.server.app.get(Templates, { strict: false });
    const hello = templates.get('hello') as NonNullable<ReturnType<Templates['get']>>;
    jest.spyOn(templates, 'get').mockReturnValue({ ...hello, protocol });
    jest.spyOn(talk.runtime.inner, 'address').mockResolvedValue({ host: '127.0.0.1', port: agent.port });
    agentConnectionPool.closeIdle();
  };

  beforeAll(async () => void (agent = await ModelServer.start()));
  afterEach(() => jest.restoreAllMocks());
  afterAll(() => agent?.stop());

  it.each([
    ['sends the whole conversation', undefined, '#one #two'],
    ['sends the new message alone, under the conversation’s name, if the agent keeps its threads', 'agent' as const, '#two'],
  ])('%s', async (_, history, remembered) => {
    await speaks({ name: 'openai', ...(history === undefined ? {} : { history }) });
    const { conversation_id: conversation } = (await talk.chat('#one')).json;
    expect((await talk.chat('#two', conversation)).json.response).toBe(`I remember ${remembered}`);
    expect(agent.asked.slice(-2).map(({ user }) => user)).toEqual([conversation, conversation]);
  });
});
