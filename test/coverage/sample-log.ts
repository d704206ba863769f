import type { AccountEvent } from '../../src/features/accounts/aggregate/accounts.events.ts';
import type { KeyEvent } from '../../src/features/admin/keys/keys.events.ts';
import type { AgentEvent } from '../../src/features/agents/aggregate/agents.events.ts';
import type { ComputerEvent } from '../../src/features/computers/aggregate/computers.events.ts';
import type { ViewerEvent } from '../../src/features/computers/viewer/viewers.events.ts';
import type { CustomFileEvent } from '../../src/features/custom-files/custom-files.events.ts';
import type { ApiKeyEvent } from '../../src/features/api-keys/api-keys.events.ts';
import type { deploymentEvents } from '../../src/features/deployments/deployments.events.ts';
import type { EnvironmentEvent } from '../../src/features/environment/environment.events.ts';
import type { CommandEvent } from '../../src/features/commands/commands.events.ts';
import type { ExecEvent } from '../../src/features/exec/exec.events.ts';
import type { FileEvent } from '../../src/features/files/files.events.ts';
import type { SecretEvent } from '../../src/features/secrets/secrets.events.ts';
import type { SubscriptionEvent } from '../../src/features/subscriptions/subscriptions.events.ts';
import type { LogEvent } from '../../src/features/logs/output/logs.events.ts';
import type { ConversationEvent } from '../../src/features/messages/conversations/conversations.events.ts';
import type { EventsOf } from '../../src/eventsourcing/event-store/event-definition.ts';
import type { WebhookEvent } from '../../src/features/webhooks/webhook-tokens.events.ts';
import type { RebuildEvent } from '../../src/eventsourcing/projections/rebuild/rebuild.events.ts';

type AnyEvent =
  | AccountEvent
  | AgentEvent
  | ComputerEvent
  | ViewerEvent
  | ApiKeyEvent
  | SecretEvent
  | EnvironmentEvent
  | CustomFileEvent
  | LogEvent
  | ConversationEvent
  | ExecEvent
  | CommandEvent
  | WebhookEvent
  | FileEvent
  | SubscriptionEvent
  | RebuildEvent
  | KeyEvent
  | EventsOf<typeof deploymentEvents>;

const id = (last: number) => `01890a5d-ac96-774b-bcce-b302099a8${String(last).padStart(3, '0')}`;
const at = (minute: number) => new Date(Date.UTC(2026, 2, 1, 12, minute)).toISOString();
const sealed = (text: string) => ({ v: 1 as const, key: 1, iv: 'AAAAAAAAAAAAAAAA', ct: Buffer.from(text).toString('base64') });

const madeImage = (n: number) => ({ image: `sha256:${n}`, image_name: `agent:${n}`, command: ['node', 'main.js'] });

const account = `account-${id(1)}`;
const agent = `agent-${id(2)}`;
const apiKey = `apiKey-${id(3)}`;
const deployment = `deployment-${id(4)}`;
const conversation = `conversation-${id(5)}`;
const exec = `exec-${id(2)}`;
const commands = `commands-${id(2)}`;
const webhook = `webhook-${id(2)}`;
const files = `files-${id(2)}`;
const subscription = `subscription-${id(15)}`;
const secrets = `secrets-${id(1)}`;
const linkingAgent = `agent-${id(17)}`;
const customAgent = `agent-${id(20)}`;
const computer = `computer-${id(25)}`;
const viewer = `viewer-${id(25)}`;
const viewed = { computer_id: id(25), session_id: id(26) };
const log = `log-${id(2)}`;
const projection = 'projection-agents_v2';
const rotation = `masterKeyRotation-${id(18)}`;
const rotated = { rotation_id: id(18), from_key_id: '0123456789abcdef', to_key_id: 'fedcba9876543210' };
const message_id = id(6);
const deployment_id = id(4);
const agent_id = id(2);
const account_id = id(1);
const subscription_id = id(15);

export interface SampleEvent {
  /** The place in the history; gaps are left so that a new type can be inserted where it happens. */
  place: number;
  stream: string;
  event: AnyEvent;
  /** The value is true if the event has the optional members of its type as well. */
  isFull: boolean;
}

const sample = (place: number, stream: string, event: AnyEvent): SampleEvent => ({ place, stream, event, isFull: false });
const full = (place: number, stream: string, event: AnyEvent): SampleEvent => ({ place, stream, event, isFull: true });

/**
 * The life of one agent, with every event type once, in its newest version, and once more as a full event where a state
 * keeps optional members. A type or version that has no file in eventstore/samples yet is
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
  sample(175, conversation, { type: 'MessagePartStored', data: { message_id: id(14), part: 1, text: sealed('the rest of a webhook') } }),
  sample(180, conversation, { type: 'DeliveryFailed', data: { message_id, attempt: 1, reason: 'it did not answer', retry_at: at(18) } }),
  sample(190, conversation, { type: 'MessageDelivered', data: { message_id, reply: sealed('an answer') } }),
  sample(200, conversation, { type: 'MessageDeadLettered', data: { message_id: id(7), code: 'agent_failed', reason: 'it answered 500' } }),
  sample(201, conversation, { type: 'MessageRequeued', data: { message_id: id(7), channel: 'webhook', revision: 1, bytes: 20 } }),
  sample(202, exec, {
    type: 'ExecStarted',
    data: { agent_id, exec_id: id(12), command: sealed('["ls"]'), timeout_seconds: 60, ends_by: at(21) },
  }),
  sample(204, exec, { type: 'ExecEnded', data: { agent_id, exec_id: id(12), exit_code: 0, timed_out: false, truncated: false } }),
  sample(208, exec, { type: 'ExecFailed', data: { agent_id, exec_id: id(13), failure: 'canceled' } }),
  sample(203, commands, {
    type: 'AgentCommandStarted',
    data: {
      agent_id,
      command_id: id(22),
      generation: 1,
      command: sealed('{"command":"make"}'),
      started_at: at(20),
      starts_by: at(21),
      keep_awake_until: at(80),
    },
  }),
  sample(205, commands, {
    type: 'AgentCommandInputSent',
    data: { agent_id, command_id: id(22), act_id: id(23), bytes: 5, closes: true },
  }),
  sample(206, commands, { type: 'AgentCommandSignaled', data: { agent_id, command_id: id(22), act_id: id(24), signal: 'SIGINT' } }),
  sample(207, commands, {
    type: 'AgentCommandEnded',
    data: { agent_id, command_id: id(22), end: 'killed', exit_code: 130, output_bytes: 2_000_000, dropped_bytes: 951_424, drops: null },
  }),
  sample(219, commands, { type: 'AgentCommandRemoved', data: { agent_id, command_id: id(22) } }),
  sample(209, webhook, {
    type: 'WebhookTokenIssued',
    data: { agent_id, token_id: id(15), token: sealed('a token'), sha256: 'cd'.repeat(32), replaces: null },
  }),
  sample(221, exec, { type: 'TerminalTicketIssued', data: { agent_id, expires_at: at(20) } }),
  sample(222, exec, { type: 'TerminalOpened', data: { agent_id, terminal_id: id(14) } }),
  sample(223, exec, { type: 'TerminalClosed', data: { agent_id, terminal_id: id(14), end: 'exited', exit_code: 0 } }),
  sample(210, agent, { type: 'AgentSleepRequested', data: { depth: 'frozen', reason: 'idle', deadline_at: at(25) } }),
  sample(211, files, {
    type: 'FileChangeStarted',
    data: { agent_id, change_id: id(14), change: 'write', paths: sealed('{"path":"notes"}'), ends_by: at(23) },
  }),
  sample(212, files, { type: 'FileWritten', data: { agent_id, change_id: id(14), size: 5, created: true } }),
  sample(213, files, { type: 'FileUploaded', data: { agent_id, change_id: id(15), size: 7, paths: sealed('{"path":"/data/inbox/a"}') } }),
  sample(214, files, { type: 'DirectoryCreated', data: { agent_id, change_id: id(16), created: true } }),
  sample(215, files, { type: 'FileMoved', data: { agent_id, change_id: id(17) } }),
  sample(216, files, { type: 'FileDeleted', data: { agent_id, change_id: id(18) } }),
  sample(217, files, { type: 'FileChangeFailed', data: { agent_id, change_id: id(19), failure: 'canceled' } }),
  sample(218, files, { type: 'FileDownloaded', data: { agent_id, paths: sealed('{"path":"/data/notes"}'), size: 5 } }),
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
  sample(341, subscription, {
    type: 'SubscriptionCreated',
    data: {
      account_id,
      subscription_id,
      host: 'hooks.example.com',
      url: sealed('https'),
      secret: sealed('whsec'),
      types: ['Agent'],
      agent_ids: null,
    },
  }),
  sample(342, subscription, { type: 'SubscriptionChanged', data: { account_id, subscription_id, changes: { types: null, active: true } } }),
  sample(343, subscription, {
    type: 'EventDeadLettered',
    data: { account_id, subscription_id, event_id: id(16), attempts: 6, reason: 'the target answered 500' },
  }),
  sample(344, subscription, { type: 'EventRedeliveryRequested', data: { account_id, subscription_id, event_id: id(16) } }),
  sample(345, subscription, { type: 'SubscriptionSwitchedOff', data: { account_id, subscription_id, failing_since: at(20) } }),
  sample(346, subscription, { type: 'SubscriptionDeleted', data: { account_id, subscription_id } }),
  sample(350, agent, { type: 'AgentDeletionRequested', data: {} }),
  sample(351, secrets, {
    type: 'SecretStored',
    data: { account_id, name: 'openai', value: sealed('a secret'), mask: 'sk-a••••••••', stored_at: at(21) },
  }),
  sample(352, linkingAgent, { type: 'VariableLinked', data: { account_id, key: 'OPENAI_API_KEY', secret: 'openai', set_at: at(21) } }),
  sample(353, secrets, { type: 'SecretRemoved', data: { account_id, name: 'openai' } }),
  sample(354, secrets, {
    type: 'SourceCredentialStored',
    data: { account_id, kind: 'registry', host: 'ghcr.io', username: 'ci', password: sealed('a password'), stored_at: at(21) },
  }),
  sample(355, secrets, { type: 'SourceCredentialRemoved', data: { account_id, kind: 'registry', host: 'ghcr.io' } }),
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
  sample(470, account, { type: 'ComputerSeatTaken', data: { computer_id: id(25), end_user_id: 'user_42' } }),
  sample(480, account, { type: 'ComputerSeatReleased', data: { computer_id: id(25) } }),
  sample(501, rotation, { type: 'MasterKeyRotationBegun', data: rotated }),
  sample(502, rotation, { type: 'MasterKeyRotated', data: rotated }),
  sample(541, customAgent, {
    type: 'CustomFilesStored',
    data: {
      files: [{ path: 'setup.sh', target_dir: '/service/scripts', size: 20, executable: true, run_on_deploy: true, content_id: id(21) }],
      stored_at: at(21),
    },
  }),
  sample(542, customAgent, { type: 'CustomFileRemoved', data: { path: 'setup.sh', target_dir: '/service/scripts' } }),
  sample(538, customAgent, { type: 'DeploymentQueued', data: { deployment_id, deadline_at: at(90) } }),
  sample(539, customAgent, { type: 'ReleaseCommandBegun', data: { deployment_id, generation: 1 } }),
  sample(540, customAgent, { type: 'ReleaseCommandSucceeded', data: { deployment_id, generation: 2 } }),
  sample(543, customAgent, { type: 'DeploymentScriptsBegun', data: { deployment_id, generation: 1 } }),
  sample(600, computer, {
    type: 'ComputerCreated',
    data: {
      account_id,
      end_user_id: 'user_42',
      name: 'Desk',
      size: 'small',
      display: { width: 1280, height: 800 },
      timezone: 'UTC',
      idle_timeout_seconds: 900,
      egress: 'internet',
      variables: { TOKEN: sealed('a variable') },
      generation: 1,
      deadline_at: at(30),
      requested_at: at(20),
    },
  }),
  sample(610, computer, { type: 'ComputerImageResolved', data: { image: 'sha256:1', image_name: 'mooring-computer:1', generation: 1 } }),
  sample(620, computer, { type: 'ComputerWoke', data: { after: 'nothing', generation: 1, started_at: at(21), size: 'small' } }),
  sample(630, computer, { type: 'ComputerConfigured', data: { changes: { name: 'Desktop', size: 'medium', variables: { TOKEN: null } } } }),
  sample(640, computer, {
    type: 'ComputerActed',
    data: { actions: { left_click: 2, type: 1 }, batches: 2, screenshots: 3, since: at(22), until: at(22) },
  }),
  sample(650, computer, { type: 'ComputerInputReleased', data: { owner: 'replica-1' } }),
  sample(660, computer, {
    type: 'ComputerSleepRequested',
    data: { depth: 'stopped', reason: 'idle', deadline_at: at(27), requested_at: at(24) },
  }),
  sample(670, computer, { type: 'ComputerSlept', data: { depth: 'stopped', slept_at: at(25) } }),
  sample(680, computer, {
    type: 'ComputerWakeRequested',
    data: { trigger: 'actions', generation: 2, deadline_at: at(28), requested_at: at(26) },
  }),
  sample(690, computer, {
    type: 'ComputerExited',
    data: {
      generation: 2,
      exit_code: 1,
      oom: false,
      cause: 'exited',
      exited_at: at(27),
      crashes: 1,
      restart: { generation: 3, at: at(27), deadline_at: at(30) },
    },
  }),
  sample(700, computer, { type: 'ComputerFailed', data: { during: 'waking', kind: 'timeout', reason: 'It was late.', failed_at: at(30) } }),
  sample(710, computer, { type: 'ComputerDeletionRequested', data: { requested_at: at(31) } }),
  sample(720, computer, { type: 'ComputerDeleted', data: {} }),
  sample(730, viewer, {
    type: 'ViewerCreated',
    data: { ...viewed, account_id: id(1), mode: 'control', exclusive: true, label: 'support', expires_at: at(40) },
  }),
  sample(740, viewer, { type: 'ViewerConnected', data: { ...viewed, connection_id: id(27), mode: 'control' } }),
  sample(750, viewer, { type: 'ViewerDisconnected', data: { ...viewed, connection_id: id(27), seconds: 5 } }),
  sample(760, viewer, { type: 'ViewerClosed', data: { ...viewed, reason: 'expired' } }),
  sample(770, conversation, {
    type: 'HandshakeAccepted',
    data: { channel: 'webhook', agent: agent_id, method: 'GET', draws: { caller: `token ${id(14)}`, at: at(41) } },
  }),
  full(775, agent, {
    type: 'DeploymentRequested',
    data: {
      deployment_id,
      generation: 9,
      source: 'github',
      image_name: null,
      repo_url: 'https://github.com/ada/helper',
      branch: 'main',
      template_id: 'langgraph',
      deadline_at: at(50),
      earlier: { deployment_id: id(28), ...madeImage(1), commit_sha: 'cd'.repeat(20), run: { port: 3000 }, start_timeout_seconds: 100 },
    },
  }),
  full(780, agent, { type: 'DeploymentStarted', data: { deployment_id, deadline_at: at(60) } }),
  full(790, agent, {
    type: 'ImageResolved',
    data: {
      deployment_id,
      ...madeImage(2),
      commit_sha: 'ab'.repeat(20),
      framework: 'langgraph',
      start_timeout_seconds: 200,
      release_command: ['node', 'migrate.js'],
      run: { protocol: 'a2a', port: 3000, health_path: '/healthz', memory_mb: 512, cpus: 1.5, webhook_handshake: '/hook' },
    },
  }),
  full(795, agent, { type: 'DeploymentSucceeded', data: { deployment_id, started_at: at(55) } }),
  full(798, conversation, {
    type: 'MessageAccepted',
    data: {
      message_id: id(29),
      channel: 'webhook',
      text: sealed('a long webhook'),
      reply_by: at(60),
      parts: { revisions: [2], bytes: 28 },
      draws: { agent: agent_id, caller: `token ${id(14)}`, at: at(56), tokenless: true },
      counted: { bytes: 8_192, at: at(56) },
    },
  }),
  full(800, conversation, {
    type: 'MessageDelivered',
    data: { message_id, reply: sealed('a question'), open_task: 'task-1', channel: 'webhook', agent: agent_id },
  }),
];
