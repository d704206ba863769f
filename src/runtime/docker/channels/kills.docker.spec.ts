import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { PrivateEngine } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { encodeVariables } from '../../channel/variables.ts';
import type { ContainerView } from '../../container.ts';

const SECRET = 'canary-5511';
const loader = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
const signalPath = JSON.stringify(new URL('../../../kernel/async/timeout-signal.ts', import.meta.url).href);
const runtimePath = JSON.stringify(new URL('../docker-runtime.ts', import.meta.url).href);

/** Starts another service on the same engine, which does the work. */
function service(bed: DockerFixture, work: string) {
  const script = `
    const { createSecretKey } = await import('node:crypto');
    const { default: Dockerode } = await import('dockerode');
    const { DockerRuntime } = await import(${runtimePath});
    const docker = new Dockerode();
    const runtime = new DockerRuntime({
      instance: '${bed.instance}', containerKey: createSecretKey('${bed.instance}', 'utf8'), helperImage: null, ociRuntime: null, egress: 'all',
    });
    ${work}`;
  return spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
}

describe('a service that is killed', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed?.close());

  const exited = (view: ContainerView) =>
    until('the container has ended', async () => {
      const now = await bed.state(view);
      return now?.state === 'exited' ? now : undefined;
    });

  it('in the middle of a command leaves no process of it running, even one that tried to escape', async () => {
    const view = await bed.running();
    const line = 'trap "" TERM HUP; (env -i setsid sleep 7077 &); (setsid sh -c "sleep 7077; true" &); sleep 7077';
    const killed = service(
      bed,
      `await runtime.exec('${view.handle}', { argv: ['/bin/sh', '-c', ${JSON.stringify(line)}], timeoutMs: 300_000, outputLimitBytes: 100 });`,
    );
    const left = async () => Number(await bed.output(view, 'ps -o args | grep -c "[s]leep 7077"; :'));
    await until('the command runs', async () => ((await left()) >= 3 ? true : undefined));
    killed.kill('SIGKILL');
    await once(killed, 'exit');
    await until('nothing of it is left', async () => ((await left()) === 0 ? true : undefined));
    expect(await bed.output(view, 'echo well')).toBe('well\n');
    await bed.runtime.remove(view.handle);
  });

  it('in the middle of moves and uploads leaves each file under one of its names, whole, and nothing half written', async () => {
    const view = await bed.running();
    await bed.output(view, 'mkdir /data/a /data/b; echo whole > /data/a/file');
    for (let round = 0; round < 5; round += 1) {
      const work = `
        const { Readable } = await import('node:stream');
        const { timeoutSignal } = await import(${signalPath});
        const soon = () => timeoutSignal(30_000);
        let told = false;
        for (;;) for (const [from, to] of [['a', 'b'], ['b', 'a']]) {
          await runtime.files.move('${view.handle}', from + '/file', to + '/file', soon()).catch(() => undefined);
          await runtime.files.write('${view.handle}', 'large', Readable.from([Buffer.alloc(3_000_000, 1)]),
            { maxBytes: 1e9, reserve: null, onTaken: 'replace', parents: false, signal: soon() });
          if (!told) console.log('began');
          told = true;
        }`;
      const killed = service(bed, work);
      await once(killed.stdout, 'data');
      killed.kill('SIGKILL');
      await once(killed, 'exit');
      await until('nothing half written is left', async () =>
        (await bed.output(view, 'ls -A /data')) === 'a\nb\nlarge\n' ? true : undefined,
      );
      expect(
        await bed.output(view, 'cat /data/a/file /data/b/file 2>/dev/null; ls /data/a /data/b | grep -c file; wc -c < /data/large'),
      ).toBe('whole\n1\n3000000\n');
    }
    await bed.runtime.remove(view.handle);
  });

  it('between the start of a container and its variables lets that container end, and it starts again with them', async () => {
    const view = await bed.runtime.create(bed.spec({ environment: { SECRET } }));
    const work = `
      const container = docker.getContainer('${view.handle}');
      const input = await container.attach({ stream: true, stdin: true, hijack: true });
      await container.start();
      input.write(Buffer.from('MOORING2\\x40\\0\\0\\0\\0\\0\\0\\0half'), () => process.kill(process.pid, 'SIGKILL'));
      await new Promise(() => setInterval(() => {}, 1_000));`;
    const [, signal] = await once(service(bed, work), 'exit');
    expect(signal).toBe('SIGKILL');
    expect(await exited(view)).toMatchObject({ exitCode: 125, notBegun: true });
    await bed.runtime.start(view.handle, { SECRET });
    expect(await bed.output(view, 'echo "$SECRET"')).toBe(`${SECRET}\n`);
    await bed.runtime.remove(view.handle);
  });

  it('and another one that start a container at once give it the variables of one of them, whole, or none', async () => {
    const others = [bed.another(), bed.another()];
    // Each looks at the image once, in a container of the agent's that is never started.
    for (const runtime of others) {
      const view = await bed.runtime.create(bed.spec());
      await runtime.start(view.handle, {});
      await bed.runtime.remove(view.handle);
    }
    for (let round = 0; round < 20; round += 1) {
      const view = await bed.runtime.create(bed.spec({ command: ['/bin/sh', '-c', 'echo "$SECRET" | md5sum; sleep 300'] }));
      const values = ['a', 'b'].map((letter) => letter.repeat(100_000));
      await Promise.all(others.map((runtime, at) => runtime.start(view.handle, { SECRET: values[at] ?? '' })));
      // A mix was refused, and is started again as after a kill in between.
      const read = async () => {
        const now = await bed.state(view);
        if (now?.state === 'exited') {
          expect(now.exitCode).toBe(125);
          await bed.runtime.start(view.handle, { SECRET: values[0] ?? '' });
        }
        return bed
          .output(view, 'echo ${#SECRET} $(echo "$SECRET" | tr -d a | wc -c) $(echo "$SECRET" | tr -d b | wc -c)')
          .catch(() => undefined);
      };
      expect(['100000 1 100001\n', '100000 100001 1\n']).toContain(await until('it runs', read));
      await bed.runtime.remove(view.handle);
    }
    for (const runtime of others) await runtime.close();
  });

  it('never runs a command too early: right after the start, or before the variables arrived, it has them', async () => {
    for (let round = 0; round < 5; round += 1) {
      const view = await bed.runtime.create(bed.spec());
      const container = bed.docker.getContainer(view.handle);
      const input = (await container.attach({ stream: true, stdin: true, hijack: true })) as unknown as Duplex;
      await container.start();
      const seen = bed.output(view, 'echo "$SECRET"');
      setTimeout(() => input.end(encodeVariables({ SECRET })), 500);
      expect(await seen).toBe(`${SECRET}\n`);
      input.destroy();
      await bed.runtime.remove(view.handle);
    }
  });
});

describe('an engine that is killed', () => {
  // A container that is left running holds the input of the attached process open, so that the command ends at its deadline.
  it.each([
    ['with its containers', [], false],
    ['and leaves its containers running', ['--live-restore'], true],
  ])('%s ends the call that was under way, and the command; the next call works', async (_, settings, stays) => {
    const engine = await PrivateEngine.open();
    try {
      await engine.start([...settings]);
      const bed = await DockerFixture.open(engine.docker);
      const view = await bed.running({ environment: { SECRET } });
      const count = () => bed.output(view, 'ps -o args | grep -c "[s]leep 7088"; :');
      const command = { argv: ['sleep', '7088'], timeoutMs: 12_000, outputLimitBytes: 100 };
      const ended = bed.runtime.exec(view.handle, command).catch((error: Error) => error.name);
      await until('it runs', async () => ((await count()) === '1\n' ? true : undefined));
      await engine.stop('SIGKILL');
      expect(await ended).toBe('RuntimeUnavailable');
      await engine.start([...settings]);
      expect(await bed.state(view)).toMatchObject({ state: stays ? 'running' : 'exited' });
      if (!stays) await bed.runtime.start(view.handle, { SECRET });
      expect(await bed.output(view, 'echo "$SECRET"')).toBe(`${SECRET}\n`);
      await until('nothing of the command is left', async () => ((await count()) === '0\n' ? true : undefined));
      await bed.runtime.files.makeDirectory(view.handle, 'made', { parents: false, signal: timeoutSignal(10_000) });
      await bed.close();
    } finally {
      await engine.close();
    }
  });
});
