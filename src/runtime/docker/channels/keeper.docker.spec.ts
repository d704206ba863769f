import type Dockerode from 'dockerode';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import { Channel } from '../../channel/channel.ts';
import type { ContainerView } from '../../container.ts';
import { ExecTransport } from './exec-transport.ts';

const within = () => timeoutSignal(30_000);
const keepers = `/bin/busybox ps -o pid,args | /bin/busybox awk '$1 != 1 && /[s]upervisor init/ { print $1 }'`;

describe('the keeper of an agent’s commands', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed?.close());

  async function start(view: ContainerView, commandId: string, script: string): Promise<void> {
    await bed.runtime.commands.start(
      view.handle,
      { commandId, argv: ['/bin/sh', '-c', script], cwd: null, environment: { SECRET: 'canary-7d2a' } },
      within(),
    );
  }
  const count = async (view: ContainerView, mark: string) =>
    Number(await bed.output(view, `/bin/busybox ps -o args | /bin/busybox grep -c "^[s]leep ${mark}" || true`));

  it.each([
    ['root', null],
    ['a user without rights', '10001:10001'],
  ])('can’t be read by an agent that is %s; killed, it takes its commands with it, and another one takes its place', async (_, user) => {
    const view = await bed.running({ user });
    expect(await bed.output(view, keepers)).toBe('');
    await start(view, 'one', '(setsid sleep 5003 &); sleep 5003');
    await until('the command runs', async () => ((await count(view, '5003')) === 2 ? true : undefined));
    const open = `pid=$(${keepers} | /bin/busybox head -n 1); for file in exe cwd fd/3; do /bin/busybox readlink /proc/$pid/$file && echo OPEN; done;
      for file in environ mem; do /bin/busybox head -c 1 /proc/$pid/$file && echo OPEN; done; echo done;`;
    expect(await bed.output(view, `{ ${open} } 2>/dev/null`)).toBe('done\n');
    await bed.output(view, `kill -9 $(${keepers} | /bin/busybox head -n 1)`);
    await until('nothing of it runs', async () => ((await count(view, '5003')) === 0 ? true : undefined));
    expect((await bed.runtime.commands.states(view.handle, within())).size).toBe(0);
    await start(view, 'one', 'echo again');
    expect(await bed.runtime.commands.ended(view.handle, 'one', within())).toMatchObject({ status: 'exited', outputBytes: 6 });
    expect(await bed.state(view)).toMatchObject({ state: 'running' });
  });

  it('does not respond to other users of the container', async () => {
    const view = await bed.running({ user: '10001:10001' });
    await start(view, 'one', 'sleep 5004');
    const container = bed.docker.getContainer(view.handle);
    const other = Object.create(container, {
      exec: { value: (options: Dockerode.ExecCreateOptions) => container.exec({ ...options, User: '10002:10002' }) },
    }) as Dockerode.Container;
    const channel = await Channel.open(await ExecTransport.open(other));
    const result = (await channel.open(['keep-states'], 1_000).ended()).result;
    // It depends on who is faster whether the call was handed over before the keeper closed the connection.
    expect(['refused killed', 'refused keeper']).toContain(result.slice(0, 2).join(' '));
    channel.close();
    expect((await bed.runtime.commands.states(view.handle, within())).get('one')).toMatchObject({ status: 'running' });
  });
});
