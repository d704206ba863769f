import Dockerode from 'dockerode';

import { eventually, RuntimeFixture } from '../../contracts/runtime.fixture.contract.ts';
import { creation, lifecycle, sleep } from '../../contracts/runtime.life.contract.ts';
import { events, logs } from '../../contracts/runtime.work.contract.ts';
import { RuntimeUnavailable } from '../../../src/runtime/runtime.errors.ts';
import { dockerUnderTest } from '../docker-under-test.ts';
import { FakeDockerEngine } from './fake-docker-engine.ts';
import { fakeProbe } from './probe.ts';
import { messagesProgram } from './program.ts';

let engine: FakeDockerEngine;

beforeAll(async () => {
  engine = await FakeDockerEngine.start({
    otherwise: fakeProbe,
    programs: { 'stand-in/agent:1': messagesProgram({ reply: (text) => `heard ${text}` }) },
    trickling: ['stand-in/trickle:1'],
  });
});

afterAll(() => engine.close());

/** Runs the runtime's contract without exec, archives, and what needs real processes. */
describe('the stand-in of an engine', () => {
  const bed = new RuntimeFixture(async () =>
    dockerUnderTest(new Dockerode({ socketPath: engine.socket }), undefined, { addresses: 'container' }),
  );
  beforeAll(() => bed.open());
  afterAll(() => bed.close());
  describe('images and containers', () => {
    creation(bed);
  });
  describe('a container’s life', () => {
    lifecycle(bed);
  });
  describe('sleep', () => {
    sleep(bed);
  });
  describe('logs', () => {
    logs(bed);
  });
  describe('events', () => {
    events(bed);
  });

  it('is asked for one version of its API by every call', () => {
    expect([...engine.traits.asked]).toEqual(['1.41']);
  });

  it('keeps its containers while it is unavailable', async () => {
    const view = await bed.running();
    const before = await bed.inspect(view);
    await engine.goAway();
    await expect(bed.runtime.inspect(view.agentId)).rejects.toThrow(RuntimeUnavailable);
    await engine.comeBack();
    // A call on a connection that the engine closed may be repeated once.
    await eventually(async () => expect(await bed.inspect(view)).toEqual(before));
    await bed.answers(view);
  });

  it('pulls chosen images endlessly, until the caller leaves', async () => {
    const lines: string[] = [];
    const source = { kind: 'reference' as const, reference: 'stand-in/trickle:1', mayUse: async () => true };
    const pulling = bed.runtime.ensureImage(source, (line) => lines.push(line), AbortSignal.timeout(500));
    await expect(pulling).rejects.toThrow('timeout');
    expect(lines).toContain('Pulling from stand-in/trickle:1');
  });

  it('answers for the program of a chosen image', async () => {
    const { image } = await bed.runtime.ensureImage(
      { kind: 'reference', reference: 'stand-in/agent:1', mayUse: async () => true },
      () => undefined,
      AbortSignal.timeout(5_000),
    );
    const view = await bed.running({}, { image });
    const answer = await bed.ask(view, 'POST', '/messages', JSON.stringify({ id: '1', text: 'hello' }));
    expect(JSON.parse(answer.text)).toEqual({ response: 'heard hello' });
  });
});

describe('the stand-in of an engine without cgroups', () => {
  let without: FakeDockerEngine;
  const bed = new RuntimeFixture(async () =>
    dockerUnderTest(new Dockerode({ socketPath: without.socket }), undefined, { addresses: 'container' }),
  );
  beforeAll(async () => {
    without = await FakeDockerEngine.start({ otherwise: fakeProbe });
    Object.assign(without.traits.info ?? {}, { CgroupDriver: 'none', MemoryLimit: false });
    without.traits.pauseRefusal = 'OCI runtime pause failed: cannot toggle freezer: cgroups not configured for container: unknown';
    await bed.open();
  });
  afterAll(async () => {
    await bed.close();
    await without.close();
  });

  it('says that it can freeze no agent', async () => {
    expect(await bed.runtime.capabilities()).toMatchObject({ freeze: false });
  });
  describe('sleep', () => {
    sleep(bed);
  });
});
