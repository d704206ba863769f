import { v7 as uuidv7 } from 'uuid';
import { ProtocolAgent } from '../../../test/support/protocol-agents/protocol-agent.ts';
import { sayTo } from '../../../test/support/protocol-agents/say.ts';
import { AgentErrorResponse, ReplyTimeout } from '../protocol.ts';

let agent: ProtocolAgent;

beforeAll(async () => void (agent = await ProtocolAgent.langgraph()));
afterAll(() => agent?.stop());

const say = (text: string, conversationId: string, given: Parameters<typeof sayTo>[4] = {}) =>
  sayTo(agent, 'langgraph', text, conversationId, given);

describe('an agent that speaks LangGraph', () => {
  it('keeps a thread for each conversation, and gets each message once', async () => {
    const [one, other] = [uuidv7(), uuidv7()];
    expect(await say('first', one)).toBe('1: first');
    expect(await say('elsewhere', other)).toBe('1: elsewhere');
    expect(await say('second', one)).toBe('2: first, second');
  });

  it('returns the same reply for a repeated message, and starts no second run', async () => {
    const conversation = uuidv7();
    const messageId = uuidv7();
    expect(await say('once', conversation, { messageId })).toBe('1: once');
    expect(await say('twice', conversation)).toBe('2: once, twice');
    expect(await say('once', conversation, { messageId })).toBe('1: once');
    expect(await say('thrice', conversation)).toBe('3: once, twice, thrice');
  });

  it('is waited for if it still works on a message that is repeated', async () => {
    const conversation = uuidv7();
    const messageId = uuidv7();
    await expect(say('slow', conversation, { messageId, timeoutMs: 300 })).rejects.toBeInstanceOf(ReplyTimeout);
    expect(await say('slow', conversation, { messageId })).toBe('slow 1');
    expect(await say('next', conversation)).toBe('2: slow, next');
  });

  it('streams the words of its model', async () => {
    const pieces: string[] = [];
    expect(await say('stream', uuidv7(), { onText: (piece) => pieces.push(piece) })).toBe('the words of a model');
    expect(pieces.length).toBeGreaterThan(1);
    expect(pieces.join('')).toBe('the words of a model');
  });

  it('that stops with a question gets the next message as the answer', async () => {
    const conversation = uuidv7();
    const messageId = uuidv7();
    expect(await say('ask', conversation, { messageId })).toBe('which one?');
    expect(await say('ask', conversation, { messageId })).toBe('which one?');
    expect(await say('the red one', conversation)).toBe('you said the red one');
    expect(await say('more', conversation)).toBe('2: ask, more');
  });

  it('whose graph fails has answered with an error, which may pass', async () => {
    const error = await say('fail', uuidv7()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AgentErrorResponse);
    expect(error).toMatchObject({ retryable: true, message: expect.stringContaining('the node failed') });
  });

  it('that has no message of its own at the end has not replied', async () => {
    await expect(say('silent', uuidv7())).rejects.toMatchObject({ name: 'AgentErrorResponse', retryable: false });
  });

  it('without such an assistant results in an error that says so', async () => {
    const protocol = { name: 'langgraph' as const, assistantId: 'nobody' };
    await expect(say('hello', uuidv7(), { protocol })).rejects.toMatchObject({ status: 404, retryable: false });
  });
});
