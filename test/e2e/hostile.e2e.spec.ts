import { connect } from 'node:net';

import { FakeDockerEngine } from '../support/fake-docker-engine/fake-docker-engine.ts';
import { messagesProgram } from '../support/fake-docker-engine/program.ts';
import { answersOfAHostileAgent, AT_FIRST, CRASH, hostileProgram, outputsOfAHostileAgent } from '../support/hostile-agent.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

const [HOSTILE, GOOD] = ['test/hostile:1', 'test/good:1'];
const REPLY_TIMEOUT_SECONDS = 3;
/** The most memory that the service may use, in MB, whatever agents do. An idle one uses about half of it. */
const MEMORY_MB_MAX = 400;

let engine: FakeDockerEngine;
let service: StartedService;
let hostile: string;
let good: string;
/** The texts of the messages that the hostile agent received. */
const given: string[] = [];

beforeAll(async () => {
  engine = await FakeDockerEngine.start({ programs: { [HOSTILE]: hostileProgram((text) => given.push(text)), [GOOD]: messagesProgram() } });
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
/** Sends a webhook with the agent's token, and returns the answer. */
async function webhook(agentId: string, body: string) {
  const { token } = (await service.call('GET', `/api/webhooks/${agentId}/token`)).body;
  const response = await fetch(`${service.firstRun.url}/api/webhooks/${agentId}?token=${token}`, { method: 'POST', body });
  return { status: response.status, body: await response.json() };
}
const deliveries = async (agentId: string) =>
  (await service.call('GET', `/api/agents/${agentId}/deliveries`)).body as { status: string; attempts: number; message: string | null }[];
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

  it('is asked less and less often while its answers are of no use', async () => {
    const agentId = await agent(HOSTILE);
    const began = performance.now();
    for (let n = 0; n < 6; n += 1) expect(await chat(agentId, 'a reset')).toMatchObject({ status: 502 });
    // After three such answers, messages are sent 250, 500 and 1,000 ms apart.
    expect(performance.now() - began).toBeGreaterThan(1_700);
    expect((await service.call('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
  });

  it('does not block calls to a good agent', async () => {
    const attacks = Object.keys(answersOfAHostileAgent).map((text) => chat(hostile, text));
    for (let n = 0; n < 5; n++) expect((await chat(good, 'hello')).status).toBe(200);
    await Promise.all(attacks);
  });

  it.each(Object.keys(answersOfAHostileAgent))('that answers a webhook with %s takes no more than its own deliveries', async (text) => {
    const agentId = await agent(HOSTILE);
    const before = given.length;
    expect(await webhook(agentId, text)).toMatchObject({ status: 202, body: { accepted: true } });
    const [delivery] = await until('an attempt has failed', async () => {
      const found = await deliveries(agentId);
      return found[0] !== undefined && found[0].attempts > 0 ? found : undefined;
    });
    expect(delivery).toMatchObject({ message: expect.stringMatching(/^POST \/messages on port 8080/) });
    expect(given.slice(before)).toContain(text);
    expect((await chat(good, 'hello')).status).toBe(200);
    expect((await service.call('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
  });

  it.each(['silence', 'a reset', 'an error without end'])(
    'that answers a webhook with %s gets it again, with the same id, and is heard then',
    async (answer) => {
      const agentId = await agent(HOSTILE);
      const text = `${AT_FIRST}${answer}`;
      await webhook(agentId, text);
      await until('it is delivered', async () => ((await deliveries(agentId))[0]?.status === 'delivered' ? true : undefined));
      expect(given.filter((each) => each === text)).toHaveLength(2);
    },
  );

  it.each(['constructor', '__proto__', 'toString'])('can’t end the capture of its log by a line of the level %s', async (level) => {
    const line = JSON.stringify({ level, message: `before ${level}` });
    await chat(hostile, `print ${line}\nafter ${level}`);
    await until('both lines are in the log', async () => {
      const found = await messages(`q=${level}&limit=100`);
      return found.includes(`before ${level}`) && found.includes(`after ${level}`) ? true : undefined;
    });
  });

  it.each(Object.keys(outputsOfAHostileAgent))('can’t end the capture of its log by printing %s', async (output) => {
    const printing = await agent(HOSTILE);
    await chat(printing, `flood with ${output}`);
    await until('some of it is in the log', async () => ((await linesOf(printing, 'limit=1')).length > 0 ? true : undefined));
    await chat(printing, CRASH);
    await until('it runs again', async () => ((await chat(printing, 'print \nthe last line')).status === 200 ? true : undefined), {
      everyMs: 500,
    });
    await until('what it printed then is in the log', async () => ((await linesOf(printing, 'q=last')).length > 0 ? true : undefined));
    expect((await service.call('DELETE', `/api/v1/agents/${printing}`)).status).toBe(204);
  });

  it('can’t fill the memory by output that is followed by callers who read nothing', async () => {
    const printing = await agent(HOSTILE);
    const { hostname, port } = new URL(service.firstRun.url);
    const followers = Array.from({ length: 10 }, () => {
      const follower = connect(Number(port), hostname).on('error', () => undefined);
      follower.pause();
      follower.write(`GET /api/v1/agents/${printing}/logs HTTP/1.1\r\nhost: ${hostname}\r\naccept: text/event-stream\r\n`);
      follower.write(`authorization: Bearer ${service.firstRun.api_key}\r\n\r\n`);
      return follower;
    });
    await chat(printing, 'flood with lines as fast as they go');
    const long = async () => (await linesOf(printing, 'limit=1000')).length === 1_000;
    await until('much of it is in the log', async () => ((await long()) ? true : undefined));
    for (const follower of followers) follower.destroy();
    expect((await service.call('DELETE', `/api/v1/agents/${printing}`)).status).toBe(204);
  });

  it('does not make the service use more memory', () => {
    expect(service.peakMemoryMb).toBeLessThan(MEMORY_MB_MAX);
  });
});
