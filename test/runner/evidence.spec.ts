import { addWitness, collectEvidence, forgetWitnesses } from './evidence.ts';

afterEach(forgetWitnesses);

describe('the evidence of a failure', () => {
  it('is what each witness says until it ends, the newest first', async () => {
    addWitness('the harbour', () => 'a boat arrived');
    const forget = addWitness('the tide', () => Promise.resolve('it turned'));
    expect(await collectEvidence()).toBe('-- the tide\nit turned\n-- the harbour\na boat arrived');
    forget();
    expect(await collectEvidence()).toBe('-- the harbour\na boat arrived');
  });

  it('names a witness that fails and one that does not answer in time, even if the test has replaced the clock', async () => {
    jest.useFakeTimers();
    addWitness('the harbour', () => {
      throw new Error('it is closed');
    });
    addWitness('the tide', () => new Promise<string>(() => undefined));
    addWitness('the wind', () => 'calm');
    const evidence = await collectEvidence(20);
    jest.useRealTimers();
    expect(evidence).toContain('-- the harbour\n(nothing: Error: it is closed)');
    expect(evidence).toContain('-- the tide\n(nothing: Error: no answer within 20 ms)');
    expect(evidence).toContain('-- the wind\ncalm');
  });

  it('is bounded, and keeps the end of what a witness says', async () => {
    for (let count = 0; count < 10; count++) addWitness('the harbour', () => `first ${'x'.repeat(100_000)} last`);
    const evidence = await collectEvidence();
    expect(evidence.length).toBeLessThanOrEqual(40_000);
    expect(evidence).toContain(' last');
    expect(evidence).not.toContain('first');
  });
});
