import { shown } from './agent-api.ts';
import { check, differs, notTried, type Exception } from './outcome.ts';
import { agentNamed, type Part, type Walk } from './step.ts';
import { AGENT_PORT, serverOn } from './walk-images.ts';

const READY = 'two agents run, and two servers on the engine’s host';
const CONNECT_SECONDS = 3;
const ANSWER_SECONDS = 2;
const REQUEST_SECONDS = 10;
const busybox = '/bin/busybox';
/** An internet address that responds on this port. */
const INTERNET = ['1.1.1.1', '443'];

/** The service's message for an agent that it does not start, because the agent's egress could not be restricted. */
const refused = /can be run only where|can't be (held to|kept from)/;

/** The destinations that an agent tries to reach, besides the internet. */
interface Places {
  /** A server on the engine's host that the operator has opened to agents. */
  open: string;
  /** Another server there. */
  closed: string;
  /** Another agent. */
  other: string;
}
/** The responses of the destinations; empty for one that was not reached. */
type Responses = Record<keyof Places, string>;

/** The egress of agents, tested from inside of one. */
export const networkPart: Part = {
  name: 'network',
  steps: [
    { name: READY, seconds: 180, run: prepares },
    { name: 'an agent reaches what the operator opened, and neither its host nor another agent', seconds: 120, needs: READY, run: isHeld },
    { name: 'an agent reaches the internet', seconds: 60, needs: READY, run: reachesInternet },
    { name: 'an agent without egress reaches nothing, and is reached', seconds: 180, needs: READY, run: isClosed },
    { name: 'an agent with a list reaches what is on it, and nothing else', seconds: 240, needs: READY, run: isListed },
  ],
};

const agent = (walk: Walk): string => agentNamed(walk, 'near');

async function prepares(walk: Walk): Promise<Exception | void> {
  const { api, engine, images, host } = walk;
  const image = await images.make('net', 'reached');
  for (const name of ['near', 'far']) walk.agents.set(name, await api.provision(name, { image: 'docker', image_name: image }));
  if (host === null) return notTried('the engine has no default network, whose gateway would be an address of its host');
  await engine.keepOnHost(image, serverOn(host.openPort));
  await engine.keepOnHost(image, serverOn(host.closedPort));
  for (const port of [host.openPort, host.closedPort]) {
    // A plain container shows that the destination is reachable, so that the agent's failure is due to its restrictions.
    const { output } = await engine.run(image, request(`${host.address} ${port}`, false));
    if (!output.includes('reached'))
      return notTried(`a plain container does not reach a server on the engine’s host (${host.address}): ${output}`);
  }
}

async function placesOf(walk: Walk): Promise<Places> {
  const { host } = walk;
  if (host === null) throw new Error('there is no host address');
  const other = await walk.engine.addressOf(agentNamed(walk, 'far'));
  return { open: `${host.address} ${host.openPort}`, closed: `${host.address} ${host.closedPort}`, other: `${other} ${AGENT_PORT}` };
}

/** Returns a command that sends a request to a host and port, or by the agent's proxy, and prints the response. */
function request(place: string, byProxy: boolean): string[] {
  const [target = '', ask = ''] = byProxy ? ['$host $port', `http://${place.replace(' ', ':')}/`] : [place, '/'];
  const proxy = byProxy ? 'p=${HTTP_PROXY#http://}; p=${p%/}; host=${p%:*}; port=${p##*:}; ' : '';
  // The input stays open for a while: a proxy aborts a request whose sender has closed its side of the connection.
  const input = `{ printf 'GET ${ask} HTTP/1.0\\r\\n\\r\\n'; ${busybox} sleep ${ANSWER_SECONDS}; }`;
  const send = `${input} | ${busybox} timeout ${REQUEST_SECONDS} ${busybox} nc -w ${CONNECT_SECONDS} ${target}`;
  return [busybox, 'sh', '-c', proxy + send];
}

/** Tries each destination from inside of the agent. */
async function responsesTo(walk: Walk, byProxy = false): Promise<Responses> {
  const responses: Partial<Responses> = {};
  for (const [place, address] of Object.entries(await placesOf(walk)) as [keyof Places, string][]) {
    const { stdout, stderr } = await walk.api.exec(agent(walk), request(address, byProxy));
    responses[place] = `${stdout}${stderr}`;
  }
  return responses as Responses;
}

/** Checks that exactly these destinations were reached. A difference is one that `/ready` reports. */
async function reachesOnly(walk: Walk, wanted: (keyof Places)[], responses: Responses): Promise<Exception | void> {
  const places = Object.entries(responses) as [keyof Places, string][];
  const wrong = places.filter(([place, response]) => response.includes('reached') !== wanted.includes(place));
  if (wrong.length === 0) return;
  const said = wrong.map(([place, response]) => `${place} is ${wanted.includes(place) ? 'not ' : ''}reached (${response})`).join(', ');
  const lack = await walk.api.lackOf('agent_egress');
  check(lack !== null, `${said}, and /ready names no lack of rules`);
  return differs(`${said}; /ready says: ${lack}`);
}

async function isHeld(walk: Walk): Promise<Exception | void> {
  return reachesOnly(walk, ['open'], await responsesTo(walk));
}

async function reachesInternet(walk: Walk): Promise<Exception | void> {
  const command = [busybox, 'nc', '-w', '5', ...INTERNET, '-e', busybox, 'true'];
  const { code } = await walk.engine.run(walk.images.base, command);
  if (code !== 0) return notTried(`a plain container does not reach ${INTERNET.join(':')} either`);
  const { exitCode, stderr } = await walk.api.exec(agent(walk), command);
  check(exitCode === 0, `it does not reach ${INTERNET.join(':')}, which a plain container does: ${stderr}`);
}

/** Sets the agent's egress, and creates its container again. Returns the service's refusal, if it refuses. */
async function setEgress(walk: Walk, egress: unknown): Promise<string | null> {
  const patched = await walk.service.call('PATCH', `/api/v1/agents/${agent(walk)}`, { egress });
  if (patched.status >= 400 && patched.status < 500) return shown(patched);
  check(patched.status === 200, `setting its egress was answered ${shown(patched)}`);
  try {
    await walk.api.change(agent(walk), 'restart', 'active');
    return null;
  } catch (error) {
    if (refused.test((error as Error).message)) return (error as Error).message;
    throw error;
  }
}

async function isClosed(walk: Walk): Promise<Exception | void> {
  const refusal = await setEgress(walk, 'none');
  if (refusal !== null) return differs(refusal);
  await walk.api.replies(agent(walk), 'reached');
  return reachesOnly(walk, [], await responsesTo(walk));
}

async function isListed(walk: Walk): Promise<Exception | void> {
  const refusal = await setEgress(walk, { allow: [`${walk.host?.address}:${walk.host?.openPort}`] });
  if (refusal !== null) return differs(refusal);
  await walk.api.replies(agent(walk), 'reached');
  const byProxy = await responsesTo(walk, true);
  const direct = await responsesTo(walk);
  return (await reachesOnly(walk, ['open'], byProxy)) ?? (await reachesOnly(walk, [], direct));
}
