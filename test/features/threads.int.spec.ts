import { Threads } from '../../src/features/messages/conversations/threads.ts';
import { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

describe('reading a thread', () => {
  let talk: ChatFixture;

  beforeAll(async () => void (talk = await startChatFixture({ MOORING_REPLY_TIMEOUT: '4' })));
  afterAll(() => talk?.server.close());

  const numbered = (count: number) =>
    Array.from({ length: count }, (_, index): [string, string] => [`question ${index}`, `answer ${index}`]);

  it('returns the latest messages, oldest first, and links to the earlier ones', async () => {
    const conversation = await talk.past(numbered(60));
    const pages = await talk.pages(conversation);
    expect(pages.map(({ length }) => length)).toEqual([50, 50, 20]);
    expect(pages[0]?.at(-1)).toMatchObject({ role: 'agent', text: 'answer 59', status: 'delivered' });
    expect(
      pages
        .toReversed()
        .flat()
        .map(({ text }) => text),
    ).toEqual(numbered(60).flat());
  });

  it.each([1, 3, 7, 200])('returns the same whole thread in pages of %d', async (limit) => {
    const conversation = await talk.past(numbered(10));
    const pages = await talk.pages(conversation, `?limit=${limit}`);
    expect(pages.every(({ length }) => length <= limit && length > 0)).toBe(true);
    const thread = pages.toReversed().flat();
    expect(thread.map(({ text }) => text)).toEqual(numbered(10).flat());
    expect(new Set(thread.map(({ status }) => status))).toEqual(new Set(['delivered']));
  });

  it('shows on every page the outcome of a message, even if its event is on another page', async () => {
    const { conversation_id } = (await talk.chat('hello')).json;
    const texts = ['fail 1', 'well 1', 'fail 2', 'well 2', 'well 3', 'fail 3'];
    await Promise.all(texts.map((text) => talk.chat(text, conversation_id)));
    const whole = await talk.thread(conversation_id);
    expect(whole.filter(({ status }) => status === 'dead_letter').map(({ text }) => text.slice(0, 4))).toEqual(['fail', 'fail', 'fail']);
    expect(whole.some(({ status }) => status === 'pending')).toBe(false);
    for (const limit of [1, 2, 5]) expect((await talk.pages(conversation_id, `?limit=${limit}`)).toReversed().flat()).toEqual(whole);
  });

  it('shows that a message waits, also on an older page', async () => {
    const { conversation_id } = (await talk.chat('hello')).json;
    const waiting = ['hang', 'after it'].map((text) => talk.chat(text, conversation_id));
    const whole = await until('both wait', async () => {
      const thread = await talk.thread(conversation_id);
      return thread.length === 4 ? thread : undefined;
    });
    expect(whole.map(({ status }) => status)).toEqual(['delivered', 'delivered', 'pending', 'pending']);
    expect((await talk.pages(conversation_id, '?limit=1')).toReversed().flat()).toEqual(whole);
    await Promise.all(waiting);
  });

  it('ends a page when its texts are a mebibyte long, but never before its first message', async () => {
    const long = (index: number) => `${index} ${'\u20AC'.repeat(200_000)}`;
    const conversation = await talk.past(Array.from({ length: 4 }, (_, index) => [long(index), long(index)]));
    const pages = await talk.pages(conversation, '?limit=200');
    expect(pages.map(({ length }) => length)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
    expect(
      pages
        .toReversed()
        .flat()
        .map(({ text }) => text[0]),
    ).toEqual(['0', '0', '1', '1', '2', '2', '3', '3']);
  });

  it('reads no more events for a page of a long thread than for one of a short thread', async () => {
    const store = talk.server.app.get(EventStore, { strict: false });
    const readStream = store.readStream.bind(store);
    let events = 0;
    store.readStream = async function* (...asked) {
      for await (const event of readStream(...asked)) {
        events += 1;
        yield event;
      }
    };
    const conversation = await talk.past(numbered(1_000));
    const path = `/api/agents/${talk.agentId}/conversations/${conversation}/messages?limit=20`;
    await talk.ask('GET', path);
    events = 0;
    const page = await talk.ask('GET', path);
    expect(page.json).toHaveLength(20);
    expect(events).toBeLessThan(60);
    store.readStream = readStream;
  });

  it.each(['x', 'WzBd', 'Wy0xXQ', 'WzEuNV0', 'WyJhIl0', 'WzEsMl0'])('refuses the cursor %s', async (cursor) => {
    const conversation = await talk.past(numbered(1));
    const path = `/api/agents/${talk.agentId}/conversations/${conversation}/messages?cursor=${cursor}`;
    expect(await talk.ask('GET', path)).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field: 'cursor' }] } });
  });

  it('sends an agent the latest exchanges of the thread, bounded in number and in bytes', async () => {
    const threads = talk.server.app.get(Threads, { strict: false });
    const many = await threads.history(await talk.past(numbered(70)), talk.agentId);
    expect(many.map(({ text }) => text)).toEqual(numbered(70).slice(20).flat());
    expect(many.slice(0, 2).map(({ role }) => role)).toEqual(['user', 'assistant']);
    const long = numbered(10).map(([question, answer]): [string, string] => [question, `${answer} ${'x'.repeat(200_000)}`]);
    const few = await threads.history(await talk.past(long), talk.agentId);
    expect(few.filter(({ role }) => role === 'user').map(({ text }) => text)).toEqual(
      numbered(10)
        .slice(5)
        .map(([question]) => question),
    );
  });

  it('leaves unanswered messages out of these exchanges', async () => {
    const threads = talk.server.app.get(Threads, { strict: false });
    const { conversation_id } = (await talk.chat('hello')).json;
    await talk.chat('fail', conversation_id);
    await talk.chat('again', conversation_id);
    const texts = (await threads.history(conversation_id, talk.agentId)).map(({ text }) => text);
    expect(texts).toEqual(['hello', 'heard: hello', 'again', 'heard: again']);
  });
});
