import { setImmediate as turn } from 'node:timers/promises';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { LargeBodies } from './large-bodies.ts';

const never = () => new Promise<never>(() => undefined);

describe('large bodies that come at once', () => {
  it('are parsed one after the other, and everything else has a turn after each of them', async () => {
    const bodies = new LargeBodies(1_000);
    let turns = 0;
    const seen: number[] = [];
    const parsed = Promise.all(Array.from({ length: 5 }, () => bodies.parse('acme', () => seen.push(turns))));
    for (let isOver = false; !isOver; isOver = seen.length === 5) {
      await turn();
      turns += 1;
    }
    await parsed;
    expect(new Set(seen).size).toBe(5);
  });

  it('of one account wait for those of another one that came later', async () => {
    const bodies = new LargeBodies(1_000);
    const order: string[] = [];
    await Promise.all(['acme', 'acme', 'acme', 'other'].map((account) => bodies.parse(account, () => order.push(account))));
    expect(order.slice(0, 3)).toContain('other');
  });

  it('are refused with the error of the parser, and later ones go on', async () => {
    const bodies = new LargeBodies(1_000);
    const wrong = bodies.parse('acme', () => {
      throw new Error('no JSON');
    });
    const right = bodies.parse('acme', () => 'read');
    await expect(wrong).rejects.toThrow('no JSON');
    expect(await right).toBe('read');
  });

  it('are read so many at a time for one account; its next one is refused after a while, and another account’s is read', async () => {
    const bodies = new LargeBodies(1_000, 16, 1);
    void bodies.read('acme', 1, never);
    void bodies.read('acme', 1, never);
    await expect(bodies.read('acme', 1, never)).rejects.toMatchObject({ code: 'rate_limited' });
    expect(await bodies.read('other', 1, () => Promise.resolve('read'))).toBe('read');
  });

  it('make room when they have been read', async () => {
    const bodies = new LargeBodies(1_000, 4, 60_000);
    let finish: () => void = () => undefined;
    const comes = new Promise<void>((resolve) => (finish = resolve));
    const first = bodies.read('acme', 1, () => comes);
    const second = bodies.read('acme', 1, () => Promise.resolve('read'));
    finish();
    await first;
    expect(await second).toBe('read');
  });

  it('of one account are read at its rate, and those of another account at once', async () => {
    const now = jest.spyOn(performance, 'now').mockReturnValue(1_000);
    const bodies = new LargeBodies(100, undefined, 1);
    const read = (account: string, bytes: number) =>
      bodies
        .read(account, bytes, () => Promise.resolve('read'))
        .catch((error: unknown) => (error instanceof ProblemError ? error.code : error));
    expect([await read('acme', 400), await read('acme', 100)]).toEqual(['read', 'rate_limited']);
    expect(await read('other', 400)).toBe('read');
    now.mockReturnValue(2_900);
    expect(await read('acme', 100)).toBe('rate_limited');
    now.mockReturnValue(4_000);
    expect(await read('acme', 100)).toBe('read');
    now.mockRestore();
  });

  it('count eight times if they are refused', async () => {
    const now = jest.spyOn(performance, 'now').mockReturnValue(1_000);
    const bodies = new LargeBodies(100, undefined, 1);
    const read = (bytes: number) => bodies.read('acme', bytes, () => Promise.resolve('read')).catch((error: ProblemError) => error.code);
    expect(await read(50)).toBe('read');
    bodies.refused('acme', 50);
    expect(await read(1)).toBe('rate_limited');
    now.mockReturnValue(1_100);
    expect(await read(1)).toBe('read');
    now.mockRestore();
  });
});
