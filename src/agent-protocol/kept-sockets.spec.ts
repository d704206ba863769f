import { Socket } from 'node:net';

import { KeptSockets } from './kept-sockets.ts';

describe('connections that are kept', () => {
  const owner = (accountId: string, agentId = accountId) => ({ accountId, agentId });
  const added = (kept: KeptSockets, accountId: string, count: number) =>
    Array.from({ length: count }, () => {
      const socket = new Socket();
      kept.add(socket, owner(accountId));
      return socket;
    });

  it('are closed for others, the oldest first, by the account that has the most', () => {
    const kept = new KeptSockets(10);
    const many = added(kept, 'greedy', 9);
    const few = added(kept, 'modest', 4);
    expect(many.map(({ destroyed }) => destroyed)).toEqual([true, true, true, false, false, false, false, false, false]);
    expect(few.some(({ destroyed }) => destroyed)).toBe(false);
    expect([...kept.all()]).toEqual([...many.slice(3), ...few]);
  });

  it('leave no account with less than its share, whoever comes last', () => {
    const kept = new KeptSockets(10);
    const few = added(kept, 'modest', 5);
    added(kept, 'greedy', 100);
    expect(few.some(({ destroyed }) => destroyed)).toBe(false);
    expect([...kept.all()]).toHaveLength(10);
  });

  it('do not count any more once they are deleted', () => {
    const kept = new KeptSockets(2);
    const [first, second] = added(kept, 'a', 2) as [Socket, Socket];
    kept.delete(first);
    kept.delete(first);
    const [third] = added(kept, 'a', 1);
    expect([first, second, third].some((socket) => socket?.destroyed)).toBe(false);
  });
});
