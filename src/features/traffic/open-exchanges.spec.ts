import fc from 'fast-check';

import { OpenExchanges } from './open-exchanges.ts';

const limits = { all: 6, perAccount: 4, perAgent: 2 };

it('never has more open than its limits, and refuses nothing below them', () => {
  const step = fc.record({ agent: fc.integer({ min: 0, max: 5 }), leave: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const open = new OpenExchanges(limits);
      const taken: { account: number; agent: number; leave: () => void }[] = [];
      for (const { agent, leave } of steps) {
        const account = agent % 2;
        if (leave) {
          taken.shift()?.leave();
          continue;
        }
        const has = (wanted: (one: (typeof taken)[number]) => boolean) => taken.filter(wanted).length;
        const isFull =
          taken.length >= limits.all ||
          has((one) => one.account === account) >= limits.perAccount ||
          has((one) => one.agent === agent) >= limits.perAgent;
        const take = () => taken.push({ account, agent, leave: open.take(String(account), String(agent)) });
        if (isFull) expect(take).toThrow(expect.objectContaining({ code: 'rate_limited', facts: { retryAfterSeconds: 1 } }));
        else take();
        expect(open.size).toBe(taken.length);
      }
      for (const { leave } of taken) leave();
      expect(open.size).toBe(0);
    }),
  );
});
