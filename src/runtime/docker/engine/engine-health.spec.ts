import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { EngineHealth } from './engine-health.ts';

const refusedConnection = () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }));

/** An engine that counts its pings, and whose answer can be changed. */
class Engine {
  pings = 0;
  answer: () => Promise<unknown> = () => Promise.resolve('OK');
  readonly health = new EngineHealth(() => {
    this.pings += 1;
    return this.answer();
  });
}

describe('the availability of the engine', () => {
  it('is checked once for all concurrent callers', async () => {
    const engine = new Engine();
    const answers = await Promise.all(Array.from({ length: 50 }, () => engine.health.available()));
    expect(answers).toEqual(Array.from({ length: 50 }, () => true));
    expect(engine.pings).toBe(1);
    expect(await engine.health.available()).toBe(true);
    expect(engine.pings).toBe(1);
  });

  it('is known without a ping right after the response to another call, also after a refusal', async () => {
    for (const work of [() => Promise.resolve(1), () => Promise.reject(new RuntimeRefused('no'))]) {
      const engine = new Engine();
      await engine.health.observe<unknown>(work).catch(() => undefined);
      expect(await engine.health.available()).toBe(true);
      expect(engine.pings).toBe(0);
    }
  });

  it('is checked again as soon as a call gets no response', async () => {
    const engine = new Engine();
    expect(await engine.health.available()).toBe(true);
    engine.answer = refusedConnection;
    await engine.health.observe(() => Promise.reject(new RuntimeUnavailable(new Error('reset')))).catch(() => undefined);
    expect(await engine.health.available()).toBe(false);
    expect(engine.pings).toBe(2);
  });

  it('is false if the engine accepts the connection and sends nothing', async () => {
    const engine = new Engine();
    engine.answer = () => new Promise(() => undefined);
    expect(await engine.health.available()).toBe(false);
  });

  it('is true in spite of a late ping if the engine responds to other calls meanwhile', async () => {
    const engine = new Engine();
    engine.answer = () => new Promise(() => undefined);
    const asking = engine.health.available();
    await engine.health.observe(() => Promise.resolve(1));
    expect(await asking).toBe(true);
  });

  it('is found again soon after the engine has come back', async () => {
    const engine = new Engine();
    engine.answer = refusedConnection;
    expect(await engine.health.available()).toBe(false);
    engine.answer = () => Promise.resolve('OK');
    engine.health.noteResponse();
    expect(await engine.health.available()).toBe(true);
  });
});
