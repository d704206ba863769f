import type { Config } from '../../../kernel/config/config.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { LogFollower, LogListener } from '../../../eventsourcing/log/log-follower.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { MessageRate } from './message-rate.ts';

/** Returns two replicas, each of which sees every message that either of them accepted. */
function replicas(chatsPerMinute: number) {
  const listeners: LogListener[] = [];
  const follower = { listen: (listener: LogListener) => (listeners.push(listener), () => {}) } as unknown as LogFollower;
  const config = { chatsPerMinute } as Config;
  const [one, two] = [new MessageRate(config, follower), new MessageRate(config, follower)];
  for (const rate of [one, two]) rate.onModuleInit();
  const heard = (account_id: string, message_id: string, channel = 'chat', draws?: { tokenless: boolean }) => {
    listen({ type: 'MessageAccepted', data: { message_id, channel, draws }, metadata: { account_id } });
  };
  const listen = (event: object) => {
    for (const listener of listeners) listener.onEvents([event as StoredEvent], '1');
  };
  return { one, two, heard, listen };
}

const refused = (attempt: () => unknown) => {
  try {
    attempt();
    return null;
  } catch (error) {
    return error instanceof ProblemError ? [error.code, error.facts.retryAfterSeconds] : error;
  }
};

describe('the chats of an account in a minute', () => {
  afterEach(() => jest.restoreAllMocks());

  it('are refused beyond the limit, with the time to wait, and accepted again in the next minute', () => {
    const now = jest.spyOn(performance, 'now').mockReturnValue(1_000_000);
    const { one } = replicas(2);
    one.consume('a', 'chat', 'm1');
    one.consume('a', 'chat', 'm2');
    now.mockReturnValue(1_015_000);
    expect(refused(() => one.consume('a', 'chat', 'm3'))).toEqual(['rate_limited', 45]);
    expect(refused(() => one.consume('b', 'chat', 'm4'))).toBeNull();
    now.mockReturnValue(1_060_000);
    expect(refused(() => one.consume('a', 'chat', 'm5'))).toBeNull();
  });

  it('count once, at every replica', () => {
    const { one, two, heard } = replicas(2);
    one.consume('a', 'chat', 'm1');
    heard('a', 'm1');
    expect(refused(() => two.consume('a', 'chat', 'm2'))).toBeNull();
    heard('a', 'm2');
    expect(refused(() => one.consume('a', 'chat', 'm3'))).toMatchObject(['rate_limited', expect.any(Number)]);
    expect(refused(() => two.consume('a', 'chat', 'm4'))).toMatchObject(['rate_limited', expect.any(Number)]);
  });

  it('include the handshakes of senders among the webhooks, once each, at every replica', () => {
    const { one, two, listen } = replicas(2);
    one.consume('a', 'webhook', 'r1');
    const shaken = (request_id: string) =>
      listen({ type: 'HandshakeAccepted', data: { channel: 'webhook' }, metadata: { account_id: 'a', request_id } });
    shaken('r1');
    shaken('r2');
    for (const replica of [one, two])
      expect(refused(() => replica.consume('a', 'webhook', 'r3'))).toMatchObject(['rate_limited', expect.any(Number)]);
  });

  it('do not include refused messages, and messages of other channels', () => {
    const { one, heard } = replicas(1);
    const takeBack = one.consume('a', 'chat', 'm1');
    takeBack();
    takeBack();
    heard('a', 'm2', 'webhook');
    expect(refused(() => one.consume('a', 'chat', 'm3'))).toBeNull();
  });

  it('leave webhooks with a token their own number, and those without one a quarter of it besides, at every replica', () => {
    const { one, two, heard } = replicas(8);
    one.consume('a', 'tokenless', 'm1');
    heard('a', 'm1', 'webhook', { tokenless: true });
    heard('a', 'm2', 'webhook', { tokenless: true });
    for (const replica of [one, two]) {
      expect(refused(() => replica.consume('a', 'tokenless', 'm3'))).toMatchObject(['rate_limited', expect.any(Number)]);
      for (let n = 0; n < 8; n += 1) expect(refused(() => replica.consume('a', 'webhook', `w${n}`))).toBeNull();
    }
  });
});
