import type { Duplex } from 'node:stream';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerView } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';

const secret = 'canary-4f1c';
const user = '10001:10001';

describe('the supervisor of an agent', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed?.close());

  const exited = (view: ContainerView) =>
    until('the container has ended', async () => {
      const now = await bed.state(view);
      return now?.state === 'exited' ? now : undefined;
    });
  const trapping = (signal: string) => ['/bin/sh', '-c', `trap "exit 7" ${signal}; echo ready; while :; do sleep 0.1; done`];

  it('gives the agent and its commands variables that the engine shows to nobody', async () => {
    const since = Math.floor(Date.now() / 1_000);
    const view = await bed.running({ command: ['/bin/sh', '-c', 'echo "has $SECRET"; sleep 300'], environment: { SECRET: secret } });
    expect(await bed.output(view, 'echo "$SECRET"')).toBe(`${secret}\n`);
    await until('the agent has it', async () => ((await bed.runtime.lastLines(view.handle, 1))[0] === `has ${secret}` ? true : undefined));
    const container = bed.docker.getContainer(view.handle);
    expect(JSON.stringify(await container.inspect())).not.toContain(secret);
    const { Id } = (await container.commit({ comment: 'test' })) as { Id: string };
    const image = bed.docker.getImage(Id);
    expect(JSON.stringify([await image.inspect(), await image.history()])).not.toContain(secret);
    await image.remove();
    const events = (await bed.docker.getEvents({ since, until: Math.ceil(Date.now() / 1_000) })) as AsyncIterable<Buffer>;
    let said = '';
    for await (const chunk of events) said += chunk.toString();
    expect(said).toContain(view.handle);
    expect(said).not.toContain(secret);
  });

  it.each([
    ['root', null],
    ['a user without rights', user],
  ])('can neither be ended, traced, read nor replaced by an agent that is %s', async (_, as) => {
    const view = await bed.running({ user: as, environment: { SECRET: secret } });
    const script = `
      box=/bin/busybox
      for signal in KILL STOP; do kill -$signal 1; done
      for pid in 1 $($box ps -o pid,args | $box awk '/[s]upervisor attach/ { print $1 }'); do
        for file in exe cwd fd/0 fd/1; do $box readlink /proc/$pid/$file && echo "OPEN $pid $file"; done
        for file in environ mem; do $box head -c 1 /proc/$pid/$file && echo "OPEN $pid $file"; done
        for fd in 0 1 2 3 4 5 6; do true > /proc/$pid/fd/$fd && echo "WRITABLE $pid $fd"; done
      done
      echo x > /.mooring/supervisor && echo REPLACED
      $box readlink /proc/$$/cwd
    `;
    expect(await bed.output(view, `{ ${script} } 2>/dev/null`)).toBe('/data\n');
    expect(await bed.output(view, 'echo "$SECRET"')).toBe(`${secret}\n`);
    expect(await bed.state(view)).toMatchObject({ state: 'running' });
  });

  it('shows by its channel that the container runs, without a query to the engine, until events may have been missed', async () => {
    const view = await bed.running();
    const inspect = jest.spyOn(bed.runtime, 'inspect');
    try {
      await bed.output(view, 'true');
      for (let n = 0; n < 3; n += 1) expect(await bed.runtime.running(view)).toBe(view.handle);
      expect(inspect).toHaveBeenCalledTimes(1);
      const following = new AbortController();
      // The first word of every stream of events is that some may have been missed.
      for await (const { kind } of bed.runtime.events(following.signal)) if (kind === 'lost') following.abort();
      expect(await bed.runtime.running(view)).toBe(view.handle);
      expect(inspect).toHaveBeenCalledTimes(2);
    } finally {
      inspect.mockRestore();
    }
  });

  it('is attached again after an agent has killed the attached process, and the commands end', async () => {
    const view = await bed.running();
    const running = bed.runtime.exec(view.handle, { argv: ['/bin/sh', '-c', 'sleep 5001'], timeoutMs: 60_000, outputLimitBytes: 100 });
    const ended = running.then(
      ({ exitCode }) => exitCode,
      (error: Error) => error.name,
    );
    const processes = async () => Number(await bed.output(view, '/bin/busybox ps -o args | /bin/busybox grep -c "^[s]leep 5001" || true'));
    await until('the command runs', async () => ((await processes()) > 0 ? true : undefined));
    await bed.runtime
      .exec(view.handle, {
        argv: ['/bin/sh', '-c', "kill -9 $(/bin/busybox ps -o pid,args | /bin/busybox awk '/[s]upervisor attach/ { print $1 }')"],
        timeoutMs: 60_000,
        outputLimitBytes: 100,
      })
      .catch(() => undefined);
    expect(['RuntimeUnavailable', 137]).toContain(await ended);
    await until('nothing of it runs', async () => ((await processes()) === 0 ? true : undefined));
    expect(await bed.state(view)).toMatchObject({ state: 'running' });
  });

  it('keeps its channel while the agent is frozen, and refuses calls meanwhile', async () => {
    const view = await bed.running();
    const attached = () => bed.output(view, "/bin/busybox ps -o pid,args | /bin/busybox awk '/[s]upervisor attach/ { print $1; exit }'");
    const before = await attached();
    await bed.runtime.freeze(view.handle);
    await expect(bed.runtime.files.list(view.handle, '.', timeoutSignal(5_000))).rejects.toThrow(RuntimeRefused);
    await bed.runtime.thaw(view.handle);
    expect(await attached()).toBe(before);
  });

  it('waits for the variables, and ends at once if they arrive incomplete', async () => {
    const view = await bed.runtime.create(bed.spec());
    const container = bed.docker.getContainer(view.handle);
    const input = (await container.attach({ stream: true, stdin: true, hijack: true })) as unknown as Duplex;
    await container.start();
    input.end(Buffer.from('MOORING2\x10\0\0\0\0\0\0\0half'));
    expect(await exited(view)).toMatchObject({ exitCode: 125 });
    await bed.runtime.start(view.handle, { SECRET: secret });
    expect(await bed.output(view, 'echo "$SECRET"')).toBe(`${secret}\n`);
    input.destroy();
  });

  it.each([
    ['by the signal that its image asks for', 'USR1', { StopSignal: 'SIGUSR1' }],
    ['by SIGTERM otherwise', 'TERM', {}],
  ])('lets an agent end %s', async (_, signal, config) => {
    const model = await bed.docker.createContainer({ Image: bed.image, ...config });
    const { Id } = (await model.commit()) as { Id: string };
    await model.remove();
    const view = await bed.running({ image: Id, command: trapping(signal) });
    await until('it is ready', async () => ((await bed.runtime.lastLines(view.handle, 1))[0] === 'ready' ? true : undefined));
    await bed.runtime.stop(view.handle, 10);
    expect(await exited(view)).toMatchObject({ exitCode: 7 });
    await bed.runtime.remove(view.handle);
    await bed.docker.getImage(Id).remove();
  });

  it.each([
    ['that ends by itself', ['/bin/sh', '-c', 'exit 3'], 3],
    ['that is killed by a signal', ['/bin/sh', '-c', 'kill -9 $$'], 137],
    ['that leaves a program behind', ['/bin/sh', '-c', 'sleep 300 & exit 4'], 4],
    ['whose program does not exist', ['/nowhere'], 127],
    ['whose program may not be executed', ['/data'], 126],
  ])('has the exit code of an agent %s', async (_, command, exitCode) => {
    expect(await exited(await bed.running({ command }))).toMatchObject({ exitCode });
  });

  it('runs the unchanged command of an image, as its user, in its folder, on a read-only root', async () => {
    const image = await bed.imageWith(['USER 10001', 'WORKDIR /tmp', 'ENTRYPOINT ["/bin/sh", "-c"]', 'CMD ["pwd; id -u; sleep 300"]']);
    const view = await bed.running({ image, readOnlyRoot: true });
    await until('it says so', async () => ((await bed.runtime.lastLines(view.handle, 2)).join() === '/tmp,10001' ? true : undefined));
    expect(await bed.output(view, 'id -u')).toBe('10001\n');
  });

  it('reaps processes that agents leave behind', async () => {
    const view = await bed.running({ command: ['/bin/sh', '-c', 'for i in 1 2 3 4 5; do (sleep 0.01 &); done; exec sleep 300'] });
    await until('nobody is dead and not buried', async () =>
      (await bed.output(view, '/bin/busybox ps -o stat | /bin/busybox grep -c "^Z" || true')) === '0\n' ? true : undefined,
    );
  });
});
