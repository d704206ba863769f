import { FollowedOutput } from '../support/followed-output.ts';
import { killable, Kills } from '../support/kills.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

const LINES = 200;
const all = Array.from({ length: LINES }, (_, n) => `line ${n + 1}\n`).join('');
/** Prints its lines over some seconds, and leaves what it wants to be seen in the exit code. */
const COUNTS = `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo line $i; sleep 0.05; done; exit 7`;

/** Registers the tests of long-running commands in a service that is killed, on the runtime. */
export function commandsThatGoOn(runtime: 'docker' | 'local'): void {
  let service: StartedService;
  let kills: Kills;
  let agentId: string;

  beforeAll(async () => {
    service = await StartedService.start({ ...(await killable()), runtime });
    kills = new Kills(service);
    const made = await service.call('POST', '/api/agents', { name: 'hello', templateId: 'hello' }, { prefer: 'wait=120' });
    expect(made.body).toMatchObject({ status: 'active' });
    agentId = made.body.agent_id as string;
  });
  afterAll(() => service?.dispose());

  const root = () => `/api/agents/${agentId}/commands`;
  const show = async (id: string) => (await service.call('GET', `${root()}/${id}`)).body;
  const follow = (id: string, from: number | null = null) =>
    new FollowedOutput(`${service.firstRun.url}${root()}/${id}/output`, service.firstRun.api_key, from);

  async function started(command: string | string[]): Promise<string> {
    const answer = await service.call('POST', root(), { command });
    expect(answer).toMatchObject({ status: 201, body: { status: 'running' } });
    return answer.body.command_id as string;
  }

  const ended = (id: string) =>
    until('the end of the command is recorded', async () => {
      const command = await show(id);
      return command.status === 'running' ? undefined : (command as object);
    });

  it('goes on while the service is killed, and is followed to its end from where a reader was', async () => {
    const id = await started(COUNTS);
    const before = follow(id);
    await until('some lines came', () => (before.text.includes('line 20\n') ? true : undefined));
    await kills.now();
    await before.over;
    expect(before.last?.event).toBe('output');
    const after = follow(id, before.next);
    await after.over;
    expect(before.text + after.text).toBe(all);
    expect(after.last).toMatchObject({ event: 'end', data: { status: 'exited', exitCode: 7, output_bytes: all.length, dropped_bytes: 0 } });
    expect(await show(id)).toMatchObject({ status: 'exited', exitCode: 7, ended_at: expect.any(String) });
  });

  it('has its end recorded though it ended while no service ran', async () => {
    const id = await started('sleep 0.3; echo gone on; exit 3');
    await kills.now();
    expect(await ended(id)).toMatchObject({ status: 'exited', exitCode: 3, output_bytes: 8 });
    const reader = follow(id);
    await reader.over;
    expect(reader.text).toBe('gone on\n');
  });

  it('freezes with its agent, is shown without a wake, and goes on with it', async () => {
    const id = await started(COUNTS);
    const reader = follow(id);
    await until('some lines came', () => (reader.text.includes('line 5\n') ? true : undefined));
    const asleep = await service.call('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=60' });
    expect(asleep.body).toMatchObject({ status: 'sleeping' });
    expect(await show(id)).toMatchObject({ status: 'running', output_bytes: null });
    expect((await service.call('GET', `/api/agents/${agentId}`)).body).toMatchObject({ status: 'sleeping' });
    await kills.now();
    expect(await show(id)).toMatchObject({ status: 'running' });
    const woken = follow(id, reader.next);
    await woken.over;
    expect(reader.text + woken.text).toBe(all);
    expect(await ended(id)).toMatchObject({ status: 'exited', exitCode: 7 });
  });

  it('ends with its container at a restart of the agent', async () => {
    const id = await started(['sleep', '600']);
    const restarted = await service.call('POST', `/api/agents/${agentId}/restart`, undefined, { prefer: 'wait=120' });
    expect(restarted.body).toMatchObject({ status: 'active' });
    expect(await ended(id)).toMatchObject({ status: 'ended_by_sleep', exitCode: null });
  });

  it('is killed with all that it started when it is deleted', async () => {
    const id = await started('sleep 600.5 & echo up; wait');
    const reader = follow(id);
    await until('it runs', () => (reader.text === 'up\n' ? true : undefined));
    expect((await service.call('DELETE', `${root()}/${id}`)).status).toBe(204);
    const look = 'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; echo; done 2>/dev/null | grep -c "^sleep 600.5"';
    expect((await service.call('POST', `/api/agents/${agentId}/exec`, { command: look })).body.stdout).toBe('0\n');
    await reader.over;
  });
}
