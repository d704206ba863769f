import type { AccountEvent } from '../../src/accounts/aggregate/accounts.events.ts';
import type { AgentEvent } from '../../src/agents/aggregate/agents.events.ts';
import type { ApiKeyEvent } from '../../src/api-keys/api-keys.events.ts';
import type { deploymentEvents } from '../../src/deployments/deployments.events.ts';
import type { EnvironmentEvent } from '../../src/environment/environment.events.ts';
import type { ExecEvent } from '../../src/exec/exec.events.ts';
import type { LogEvent } from '../../src/logs/output/logs.events.ts';
import type { ConversationEvent } from '../../src/messages/conversations/conversations.events.ts';
import type { EventsOf } from '../../src/platform/event-store/event-definition.ts';
import type { RebuildEvent } from '../../src/platform/projections/rebuild/rebuild.events.ts';

type AnyEvent =
  | AccountEvent
  | AgentEvent
  | ApiKeyEvent
  | EnvironmentEvent
  | LogEvent
  | ConversationEvent
  | ExecEvent
  | RebuildEvent
  | EventsOf<typeof deploymentEvents>;

const id = (last: number) => `01890a5d-ac96-774b-bcce-b302099a8${String(last).padStart(3, '0')}`;
const at = (minute: number) => new Date(Date.UTC(2026, 2, 1, 12, minute)).toISOString();
const sealed = (text: string) => ({ v: 1 as const, key: 1, iv: 'AAAAAAAAAAAAAAAA', ct: Buffer.from(text).toString('base64') });

const account = `account-${id(1)}`;
const agent = `agent-${id(2)}`;
const apiKey = `apiKey-${id(3)}`;
const deployment = `deployment-${id(4)}`;
const conversation = `conversation-${id(5)}`;
const exec = `exec-${id(2)}`;
const log = `log-${id(2)}`;
const projection = 'projection-agents_v2';
const message_id = id(6);
const deployment_id = id(4);
const agent_id = id(2);
const account_id = id(1);

export interface SampleEvent {
  /** The place in the history; gaps are left so that a new type can be inserted where it happens. */
  place: number;
  stream: string;
  event: AnyEvent;
}

const sample = (place: number, stream: string, event: AnyEvent): SampleEvent => ({ place, stream, event });

/**
 * The life of one agent, with every event type once, in its newest version. A type or version that has no file in eventstore/samples yet is
 * written there once; after that, only the file counts.
 */
export const sampleLog: SampleEvent[] = [
  sample(10, account, { type: 'AccountOpened', data: { name: 'Ada', role: 'admin' } }),
  sample(20, account, { type: 'PlanAssigned', data: { plan: 'team', seats: 3, payment_method: true } }),
  sample(30, apiKey, {
    type: 'ApiKeyIssued',
    data: {
      account_id,
      key_id: id(3),
      name: 'ci',
      prefix: 'mk_AbCdEf',
      sha256: 'ab'.repeat(32),
      scopes: ['deploy', 'manage'],
      expires_at: at(600),
    },
  }),
  sample(40, account, { type: 'SeatTaken', data: { agent_id, external_id: 'user-7' } }),
  sample(50, account, { type: 'FirstMonthCharged', data: { agent_id } }),
  sample(60, agent, {
    type: 'AgentProvisioned',
    data: {
      name: 'helper',
      description: 'Answers mail',
      image: 'docker',
      image_name: 'nginx:1',
      repo_url: null,
      branch: 'main',
      template_id: null,
      serverless: true,
      idle_ttl_seconds: 300,
      account_id,
      external_id: 'user-7',
    },
  }),
  sample(70, agent, {
    type: 'VariableSet',
    data: { key: 'TOKEN', is_secret: true, value: null, sealed: sealed('a variable'), mask: 'abcd••••••••', set_at: at(7) },
  }),
  sample(80, agent, { type: 'AgentConfigured', data: { changes: { name: 'mailer', idle_ttl_seconds: 0 } } }),
  sample(90, agent, {
    type: 'DeploymentRequested',
    data: {
      deployment_id,
      generation: 1,
      source: 'docker',
      image_name: 'nginx:1',
      repo_url: null,
      branch: null,
      template_id: null,
      deadline_at: at(30),
    },
  }),
  sample(100, agent, { type: 'DeploymentStarted', data: { deployment_id } }),
  sample(110, deployment, { type: 'BuildLogCaptured', data: { agent_id, first_line: 0, lines: ['Pulling nginx:1', 'Done'] } }),
  sample(120, agent, {
    type: 'ImageResolved',
    data: { deployment_id, image: 'nginx@sha256:1', image_name: 'nginx:1', command: ['nginx', '-g', 'daemon off;'], commit_sha: null },
  }),
  sample(130, agent, { type: 'ContainerCreated', data: { deployment_id, generation: 1 } }),
  sample(140, agent, { type: 'DeploymentSucceeded', data: { deployment_id, started_at: at(14) } }),
  sample(150, log, {
    type: 'LogLinesCaptured',
    data: { lines: [{ t: at(15), l: 'warning', m: 'low on paper' }], cursor: { generation: 1, time: at(15), count: 1 } },
  }),
  sample(160, conversation, { type: 'ConversationStarted', data: { agent_id, account_id, channel: 'chat' } }),
  sample(170, conversation, { type: 'MessageAccepted', data: { message_id, channel: 'chat', text: sealed('a question') } }),
  sample(180, conversation, { type: 'DeliveryFailed', data: { message_id, attempt: 1, reason: 'it did not answer', retry_at: at(18) } }),
  sample(190, conversation, { type: 'MessageDelivered', data: { message_id, reply: sealed('an answer') } }),
  sample(200, conversation, { type: 'MessageDeadLettered', data: { message_id: id(7), code: 'agent_failed', reason: 'it answered 500' } }),
  sample(202, exec, {
    type: 'ExecStarted',
    data: { agent_id, exec_id: id(12), command: sealed('["ls"]'), timeout_seconds: 60, ends_by: at(21) },
  }),
  sample(204, exec, { type: 'ExecEnded', data: { agent_id, exec_id: id(12), exit_code: 0, timed_out: false, truncated: false } }),
  sample(208, exec, { type: 'ExecFailed', data: { agent_id, exec_id: id(13), failure: 'canceled' } }),
  sample(210, agent, { type: 'AgentSleepRequested', data: { depth: 'frozen', reason: 'idle', deadline_at: at(25) } }),
  sample(220, agent, { type: 'AgentSlept', data: { depth: 'frozen', slept_at: at(22) } }),
  sample(230, agent, { type: 'AgentWakeRequested', data: { trigger: 'chat', deadline_at: at(25) } }),
  sample(240, agent, { type: 'AgentWoke', data: { after: 'frozen', started_at: at(24) } }),
  sample(250, agent, {
    type: 'ContainerExited',
    data: {
      generation: 1,
      exit_code: 137,
      oom: true,
      cause: 'exited',
      crashes: 1,
      restart: { generation: 2, at: at(25), deadline_at: at(28) },
    },
  }),
  sample(260, agent, { type: 'AgentStarted', data: { generation: 2, started_at: at(26) } }),
  sample(270, agent, { type: 'AgentStopRequested', data: { deadline_at: at(29) } }),
  sample(280, agent, { type: 'AgentStopped', data: {} }),
  sample(290, agent, { type: 'AgentStartRequested', data: { generation: 3, deadline_at: at(32) } }),
  sample(300, agent, { type: 'AgentFailed', data: { during: 'starting', kind: 'timeout', reason: 'It was not ready in time.' } }),
  sample(310, agent, { type: 'AgentRestartRequested', data: { generation: 4, deadline_at: at(35) } }),
  sample(320, agent, { type: 'DeploymentCanceled', data: { deployment_id, reason: 'the agent was stopped' } }),
  sample(330, agent, {
    type: 'DeploymentFailed',
    data: { deployment_id, step: 'start', kind: 'timeout', reason: 'It was not ready within 60 s.' },
  }),
  sample(340, agent, { type: 'VariableRemoved', data: { key: 'TOKEN' } }),
  sample(350, agent, { type: 'AgentDeletionRequested', data: {} }),
  sample(360, agent, { type: 'AgentDeleted', data: {} }),
  sample(370, account, { type: 'SeatReleased', data: { agent_id } }),
  sample(380, apiKey, { type: 'ApiKeyRevoked', data: { account_id, key_id: id(3) } }),
  sample(390, account, { type: 'SignedIn', data: { session_id: id(8), expires_at: at(600) } }),
  sample(400, account, { type: 'SignedOut', data: { session_id: id(8) } }),
  sample(410, apiKey, { type: 'ApiKeyExpired', data: { account_id, key_id: id(3) } }),
  sample(420, projection, { type: 'ProjectionRebuildRequested', data: { rebuild_id: id(9) } }),
  sample(430, projection, { type: 'ProjectionRebuildCanceled', data: { rebuild_id: id(9) } }),
  sample(440, projection, { type: 'ProjectionRebuildFailed', data: { rebuild_id: id(10), reason: 'AgentStopped at 12: no such agent' } }),
  sample(450, projection, { type: 'ProjectionRebuilt', data: { rebuild_id: id(11) } }),
  sample(460, projection, { type: 'ProjectionVerified', data: { position: '0'.repeat(18) + '45', equal: true, differences: 0 } }),
];
