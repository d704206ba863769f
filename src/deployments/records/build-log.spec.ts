import type { EventStore } from '../../platform/event-store/event-store.ts';
import { BuildLog } from './build-log.ts';

const log = new BuildLog({} as EventStore, { id: 'd', agentId: 'a', accountId: 'acme' }, ['canary-of-the-operator']);

it('masks a secret of a message before the message is cut to its length', () => {
  expect(log.redacted('it failed: canary-of-the-operator')).toBe('it failed: ••••••••');
  for (let before = 470; before < 510; before += 1) {
    const message = log.redacted(`${'x'.repeat(before)}canary-of-the-operator`);
    expect(message.length).toBeLessThanOrEqual(500);
    expect(message).not.toContain('c');
  }
});
