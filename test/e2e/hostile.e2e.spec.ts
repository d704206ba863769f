import { EngineStandIn } from '../support/engine-stand-in/engine-stand-in.ts';
import { messagesProgram } from '../support/engine-stand-in/program.ts';
import { answersOfAHostileAgent, CRASH, hostileProgram, outputsOfAHostileAgent } from '../support/hostile-agent.ts';
import { StartedService } from '../support/started-service.ts';
import { databaseOf, dump } from '../support/stored-texts.ts';
import { until } from '../support/until.ts';

const [HOSTILE, GOOD] = ['test/hostile:1', 'test/good:1'];
const REPLY_TIMEOUT_SECONDS = 3;

let engine: EngineStandIn;
let service: StartedService;
let hostile: string;
let good: string;
/** The texts of the messages that the hostile agent received. */
const given: string[] = [];

beforeAll(async () => {
  engine = await EngineStandIn.start({ programs: { [HOSTILE]: hostileProgram((text) => given.push(text)), [GOOD]: messagesProgram() } });
  const environment = { ...engine.environment, MOORING_REPLY_TIMEOUT: String(REPLY_TIMEOUT_SECONDS) };
  service = await StartedService.start({ runtime: 'docker', environment });
  [hostile, good] = [await agent(HOSTILE), await agent(GOOD)];
});

afterAll(async () => {
  await service?.dispose();
  await engine?.close();
});

async function agent(image: string): Promise<string> {
  const body = { name: image, image: 'docker', image_name: image };
  const made = await service.call('POST', '/api/v1/provision', body, { prefer: 'wait=60' });
  expect(made.body).toMatchObject({ status: 'active' });
  return made.body.agent_id;
}

const chat = (agentId: string, message: string) => service.call('POST', `/api/agents/${agentId}/chat`, { message });
const linesOf = async (agentId: string, query: string): Promise<string[]> =>
  (await service.call('GET', `/api/v1/agents/${agentId}/logs?${query}`)).body.map(({ message }: { message: string }) => message);
const messages = (query: string) => linesOf(hostile, query);

describe('a hostile agent', () => {
  const { silence: _silence, 'a drip of headers': _headers, 'a drip of body': _body, ...broken } = answersOfAHostileAgent;

  it.each(Object.keys(broken))('that answers with %s makes the caller get 502 at once, and gets the message once', async (text) => {
    const answer = await chat(hostile, text);
    expect(answer).toMatchObject({ status: 502, body: { code: 'agent_failed' } });
    expect(given.filter((each) => each === text)).toHaveLength(1);
  });

  it.each(['silence', 'a drip of headers', 'a drip of body'])('that answers with %s makes the caller get 504', async (text) => {
    expect(await chat(hostile, text)).toMatchObject({ status: 504, body: { code: 'reply_timeout' } });
    expect(given.filter((each) => each === text)).toHaveLength(1);
  });

  it('does not block calls to a good agent', async () => {
    const attacks = Object.keys(answersOfAHostileAgent).map((text) => chat(hostile, text));
    for (let n = 0; n < 5; n++) expect((await chat(good, 'hello')).status).toBe(200);
    await Promise.all(attacks);
  });

  it.each(['constructor', '__proto__', 'toString'])('can’t end the capture of its log by a line of the level %s', async (level) => {
    const line = JSON.stringify({ level, message: `before ${level}` });
    await chat(hostile, `print ${line}\nafter ${level}`);
    await until('both lines are in the log', async () => {
      const found = await messages(`q=${level}&limit=100`);
      return found.includes(`before ${level}`) && found.includes(`after ${level}`) ? true : undefined;
    });
  });

  it.each(Object.keys(outputsOfAHostileAgent))(
    'can’t end the capture of its log by printing %s',
    async (output) => {
      const printing = await agent(HOSTILE);
      await chat(printing, `flood with ${output}`);
      await until('some of it is in the log', async () => ((await linesOf(printing, 'limit=1')).length > 0 ? true : undefined), 30_000);
      await chat(printing, CRASH);
      await until(
        'it runs again',
        async () => ((await chat(printing, 'print \nthe last line')).status === 200 ? true : undefined),
        30_000,
        500,
      );
      await until(
        'what it printed then is in the log',
        async () => ((await linesOf(printing, 'q=last')).length > 0 ? true : undefined),
        30_000,
      );
      expect((await service.call('DELETE', `/api/v1/agents/${printing}`)).status).toBe(204);
    },
    120_000,
  );

  it('leaves nothing of its output behind a minute after it was deleted', async () => {
    const canary = 'c4n4ry-that-an-agent-printed';
    await chat(hostile, `print ${canary}`);
    await until('the line is in the log', async () => ((await messages(`q=${canary}`)).length > 0 ? true : undefined));
    const url = await databaseOf(service);
    const found = async (text: string) => (await dump(url)).filter(([, row]) => row.includes(text)).map(([table]) => table);
    expect((await found(canary)).length).toBeGreaterThan(0);
    expect((await service.call('DELETE', `/api/v1/agents/${hostile}`)).status).toBe(204);
    await until('nothing of it is left', async () => ((await found(canary)).length === 0 ? true : undefined), 60_000);
    const entries = async () => (await found(hostile)).filter((table) => /^(log_|drained_)/.test(table));
    await until('no entry of its log is left', async () => ((await entries()).length === 0 ? true : undefined), 60_000);
    for (const readModel of ['log_lines', 'log_journal']) expect(await verified(readModel)).toMatchObject({ equal: true });
  });
});

/** Returns the administrator's comparison of the read model with the log. */
async function verified(readModel: string) {
  const { email, password } = service.firstRun;
  const session = (await service.call('POST', '/api/auth/login', { email, password })).body.session_token;
  const headers = { authorization: `Bearer ${session}` };
  return (await service.call('POST', `/api/admin/projections/${readModel}/verify`, undefined, headers)).body;
}
