import { randomBytes } from 'node:crypto';

import { v7 as uuidv7 } from 'uuid';

/** The number of events in the life of one agent: it is created, deployed, repeatedly stopped and started, and finally at rest. */
export const EVENTS_EACH = 100;

const CHUNK = 2_000;
/** The time of the first event: late enough that retention removes nothing. */
export const BEGIN = Date.now() - 2 * 3_600_000;
const ACTOR = '0190aaaa-0000-7000-8000-000000000001';
const metadata = (accountId: string, actorId: string) =>
  JSON.stringify({
    actor: { kind: 'api_key', id: actorId, name: 'deployments' },
    account_id: accountId,
    request_id: '0190aaaa-0000-7000-8000-000000000002',
    causation_id: null,
    ip: '203.0.113.7',
  });

export const agentIdOf = (): string => uuidv7();

type Happened = [type: string, version: number, data: object];

/** Returns the n-th event of an agent. */
function event(n: number, accountId: string, deploymentId: string): Happened {
  const deadline_at = '2026-01-01T01:00:00.000Z';
  const started_at = '2026-01-01T00:00:30.000Z';
  const image = 'ghcr.io/team/assistant';
  const source = { image: 'docker', image_name: `${image}:1`, repo_url: null, branch: 'main', template_id: null };
  const deployment = { source: 'docker', image_name: `${image}:1`, repo_url: null, branch: null, template_id: null };
  const first: Happened[] = [
    [
      'AgentProvisioned',
      1,
      {
        name: 'assistant',
        description: 'Answers what customers ask',
        serverless: true,
        idle_ttl_seconds: 300,
        ...source,
        account_id: accountId,
        external_id: null,
      },
    ],
    ['DeploymentRequested', 1, { deployment_id: deploymentId, generation: 1, ...deployment, deadline_at }],
    ['DeploymentStarted', 1, { deployment_id: deploymentId }],
    [
      'ImageResolved',
      1,
      {
        deployment_id: deploymentId,
        image: `${image}@sha256:${'a'.repeat(64)}`,
        image_name: `${image}:1`,
        command: ['node', 'server.js'],
        commit_sha: null,
      },
    ],
    ['ContainerCreated', 1, { deployment_id: deploymentId, generation: 1 }],
    ['DeploymentSucceeded', 1, { deployment_id: deploymentId, started_at }],
  ];
  const early = first[n];
  if (early !== undefined) return early;
  const cycle: Happened[] = [
    ['AgentStopRequested', 1, { deadline_at }],
    ['AgentStopped', 1, {}],
    ['AgentStartRequested', 1, { generation: 2 + Math.floor((n - first.length) / 4), deadline_at }],
    ['AgentStarted', 1, { generation: 2 + Math.floor((n - first.length) / 4), started_at }],
  ];
  return cycle[(n - first.length) % cycle.length] as Happened;
}

/** Yields the events of all the agents, the n-th of all before the next of any, as lines of a COPY into the log. */
export async function* eventLines(agentIds: readonly string[], accountId: string, after: number, actorId = ACTOR): AsyncGenerator<Buffer> {
  const about = metadata(accountId, actorId);
  let position = after;
  let lines: string[] = [];
  for (let n = 0; n < EVENTS_EACH; n += 1)
    for (const agentId of agentIds) {
      position += 1;
      const [type, version, data] = event(n, accountId, agentId);
      const text = JSON.stringify(data);
      const size = text.length + about.length;
      const at = new Date(BEGIN + position * 3).toISOString();
      lines.push([position, `agent-${agentId}`, n, randomId(), type, version, text, about, size, at].join('\t'));
      if (lines.length < CHUNK) continue;
      yield Buffer.from(`${lines.join('\n')}\n`);
      lines = [];
    }
  if (lines.length > 0) yield Buffer.from(`${lines.join('\n')}\n`);
}

function randomId(): string {
  return randomBytes(16).toString('hex');
}
