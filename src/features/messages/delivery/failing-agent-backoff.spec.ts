import { FailingAgentBackoff, TOLERATED_FAILURES } from './failing-agent-backoff.ts';

const never = new AbortController().signal;
/** Resolves when everything was done that does not wait. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Returns whether the wait is over. */
async function isOver(wait: Promise<void>): Promise<boolean> {
  let over = false;
  void wait.then(
    () => (over = true),
    () => (over = true),
  );
  await settled();
  return over;
}

function broken(times: number): FailingAgentBackoff {
  const answers = new FailingAgentBackoff();
  for (let n = 0; n < times; n += 1) answers.recordFailure('a');
  return answers;
}

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();

describe('the messages for an agent whose answers can’t be used', () => {
  let now: jest.SpiedFunction<typeof performance.now>;
  beforeEach(() => (now = jest.spyOn(performance, 'now').mockReturnValue(1_000_000)));
  afterEach(() => now.mockRestore());

  it('are sent immediately after a few such answers', async () => {
    const answers = broken(TOLERATED_FAILURES - 1);
    expect(await isOver(answers.waitForTurn('a', inAnHour(), never))).toBe(true);
  });

  it('wait after more of them, for at most four seconds, and those for another agent do not', async () => {
    const answers = broken(50);
    const ended = new AbortController();
    const wait = answers.waitForTurn('a', inAnHour(), ended.signal);
    expect(await isOver(wait)).toBe(false);
    expect(await isOver(answers.waitForTurn('b', inAnHour(), never))).toBe(true);
    now.mockReturnValue(1_008_000);
    expect(await isOver(answers.waitForTurn('a', inAnHour(), never))).toBe(true);
    ended.abort(new Error('over'));
    await expect(wait).rejects.toThrow('over');
  });

  it('do not wait if the last such answer was long ago', async () => {
    const answers = broken(50);
    now.mockReturnValue(1_004_000);
    expect(await isOver(answers.waitForTurn('a', inAnHour(), never))).toBe(true);
  });

  it('take turns, so that each waits for the previous one', async () => {
    const answers = broken(50);
    now.mockReturnValue(1_004_000);
    const ended = new AbortController();
    const waits = [1, 2, 3].map(() => answers.waitForTurn('a', inAnHour(), ended.signal));
    expect(await Promise.all(waits.map(isOver))).toEqual([true, false, false]);
    ended.abort(new Error('over'));
    await Promise.allSettled(waits);
  });

  it('are all sent as soon as an answer can be used', async () => {
    const answers = broken(50);
    const waits = [1, 2, 3].map(() => answers.waitForTurn('a', inAnHour(), never));
    answers.recordSuccess('a');
    await Promise.all(waits);
    expect(await isOver(answers.waitForTurn('a', inAnHour(), never))).toBe(true);
  });

  it('reserve no turn that comes too late for their sender, so that the next ones do not wait for it', async () => {
    const answers = broken(50);
    await Promise.all([1, 2, 3, 4, 5].map(() => answers.waitForTurn('a', new Date(Date.now() + 1).toISOString(), never)));
    now.mockReturnValue(1_004_000);
    expect(await isOver(answers.waitForTurn('a', inAnHour(), never))).toBe(true);
  });
});
