import { ReplyEvents } from './reply-events.ts';

const ids = { conversation_id: 'c', message_id: 'm' };
const reply = (response: string) => ({ response, ...ids });

async function read(events: ReplyEvents): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const { event, data } of events) all.push(event === 'delta' ? (data as { text: string }).text : event);
  return all;
}

describe('the events of a reply', () => {
  it('join the pieces that nobody has read yet', async () => {
    const events = new ReplyEvents(ids);
    for (const piece of ['one ', 'two ', 'three']) events.add(piece);
    events.end(reply('one two three'));
    expect(await read(events)).toEqual(['accepted', 'one two three', 'reply']);
  });

  it('send a slow reader the start of a long reply, and the whole of it at the end', async () => {
    const events = new ReplyEvents(ids);
    const piece = 'x'.repeat(1_000);
    for (let said = 0; said < 1_000; said += 1) events.add(piece);
    events.add('short');
    events.end(reply('all of it'));
    const [accepted, text, last, ...others] = await read(events);
    expect([accepted, last, others]).toEqual(['accepted', 'reply', []]);
    expect(text).toBe(piece.repeat(65));
  });

  it('end immediately for a reader who has disconnected', async () => {
    const events = new ReplyEvents(ids);
    const reading = read(events);
    events.add('one');
    events.drop();
    events.add('two');
    events.end(reply('one two'));
    expect(await reading).not.toContain('reply');
    expect(await read(events)).toEqual(['accepted']);
  });
});
