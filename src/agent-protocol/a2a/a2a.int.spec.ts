import { v7 as uuidv7 } from 'uuid';
import { ProtocolAgent } from '../../../test/support/protocol-agents/protocol-agent.ts';
import { replyOf, sayTo } from '../../../test/support/protocol-agents/say.ts';

describe.each(['1.0', '0.3'] as const)('an agent that speaks A2A %s', (version) => {
  let agent: ProtocolAgent;

  beforeAll(async () => void (agent = await ProtocolAgent.a2a(version)));
  afterAll(() => agent?.stop());

  const say = (text: string, conversationId: string, given: Parameters<typeof sayTo>[4] = {}) =>
    sayTo(agent, 'a2a', text, conversationId, given);

  const ask = (conversationId: string, given: Parameters<typeof replyOf>[4] = {}) => replyOf(agent, 'a2a', 'ask', conversationId, given);

  it('keeps a context for each conversation, at its own address whatever its card says', async () => {
    const [one, other] = [uuidv7(), uuidv7()];
    expect(await say('first', one)).toBe('1: first (1 ids)');
    expect(await say('elsewhere', other)).toBe('1: elsewhere (1 ids)');
    expect(await say('second', one)).toBe('2: first, second (2 ids)');
  });

  it('recognizes a repeated message by its id', async () => {
    const conversation = uuidv7();
    const messageId = uuidv7();
    await say('once', conversation, { messageId });
    expect(await say('once', conversation, { messageId })).toBe('2: once, once (1 ids)');
  });

  it('replies with the artifacts of a task', async () => {
    expect(await say('work', uuidv7())).toBe('one two\n\nthree');
  });

  it('streams the artifacts of a task', async () => {
    const pieces: string[] = [];
    expect(await say('work', uuidv7(), { onText: (piece) => pieces.push(piece) })).toBe('one two\n\nthree');
    expect(pieces.join('')).toBe('one two\n\nthree');
    expect(pieces.length).toBeGreaterThan(1);
  });

  it('replies with a message also when it streams', async () => {
    expect(await say('hello', uuidv7(), { onText: () => undefined })).toBe('1: hello (1 ids)');
  });

  it('that needs more input has replied with its question', async () => {
    expect(await say('ask', uuidv7())).toBe('which one?');
  });

  it('that needs more input gets the next message as the answer', async () => {
    const conversation = uuidv7();
    const { response, openTask } = await ask(conversation);
    expect(response).toBe('which one?');
    expect(await say('the red one', conversation, { openTask })).toBe('you said the red one');
    expect(await say('more', conversation)).toBe('3: ask, the red one, more (3 ids)');
  });

  it('that needs more input returns the same question for the same message', async () => {
    const [conversation, messageId] = [uuidv7(), uuidv7()];
    const { openTask } = await ask(conversation, { messageId });
    expect(await ask(conversation, { messageId, openTask })).toEqual({
      response: 'which one?',
      ...(openTask === undefined ? {} : { openTask }),
    });
    expect(await say('the red one', conversation, { openTask })).toBe('you said the red one');
  });

  it('that has lost the task which needed input begins another one', async () => {
    expect(await say('hello', uuidv7(), { openTask: uuidv7() })).toBe('1: hello (1 ids)');
  });

  // Only version 0.3 requests the task by its id.
  if (version === '0.3')
    it('that can not return the task which needs input for a moment has not lost it', async () => {
      const conversation = uuidv7();
      const { openTask } = await replyOf(agent, 'a2a', 'ask and fail', conversation);
      const answer = () => say('the red one', conversation, { openTask });
      await expect(answer()).rejects.toMatchObject({ name: 'AgentErrorResponse', retryable: true });
      expect(await answer()).toBe('you said the red one');
    });

  // Version 0.3 can't be asked for the tasks of a context.
  if (version === '1.0')
    it('returns the same reply for a message that a task has answered already, and starts no second task', async () => {
      const conversation = uuidv7();
      const messageId = uuidv7();
      expect(await say('work', conversation, { messageId })).toBe('one two\n\nthree');
      expect(await say('work', conversation, { messageId })).toBe('one two\n\nthree');
      expect(await say('how often?', conversation)).toBe('2: work, how often? (2 ids)');
    });

  it('whose task fails has answered with an error, which may pass', async () => {
    for (const onText of [undefined, () => undefined])
      await expect(say('fail', uuidv7(), { onText })).rejects.toMatchObject({
        name: 'AgentErrorResponse',
        retryable: true,
        message: expect.stringContaining('it can not be done'),
      });
  });
});
