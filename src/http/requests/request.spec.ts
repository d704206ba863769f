import type { Caller } from '../../kernel/context/caller.ts';
import { shareOf } from './request.ts';

const caller = (more: Partial<Caller>): Caller => ({
  kind: 'api_key',
  id: 'id',
  name: 'name',
  accountId: 'acme',
  role: 'member',
  scopes: new Set(),
  ...more,
});
const webhook = (hasToken: boolean) => caller({ kind: 'webhook', webhook: { budget: 'budget', hasToken } });

describe('the share of the process that a request counts for', () => {
  it('is the account’s; its webhooks with a token have another, and those without a token a third', () => {
    const shares = [caller({}), webhook(true), webhook(false)].map((each) => shareOf({ caller: each }));
    expect(shares[0]).toBe('acme');
    expect(new Set(shares).size).toBe(3);
    expect(shareOf({ caller: caller({ kind: 'session' }) })).toBe('acme');
    expect(shareOf({})).toBeNull();
  });
});
