import { resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { parseImageReference } from '../network/image-reference.ts';
import { openRange, type OpenRange } from '../network/open-ranges.ts';
import { ComputerSettings, readComputerSettings } from './computer-settings.ts';
import { problemOf } from './eventstore-url.ts';
import { originOf } from './origin-of.ts';
import { checkPublishedPorts, clientRange } from './published-ports.ts';
import { type Environment, SettingReader } from './setting-reader.ts';
import { withoutLast } from '../text/without-last.ts';

/** The addresses that agents may reach: the internet but nothing private, nothing at all, or everything that their host can. */
export type EgressMode = 'internet' | 'none' | 'all';

/** The way to agents: the addresses of their containers, ports that the engine publishes for them, or the former where they are reachable. */
export type AgentAddresses = 'auto' | 'container' | 'published';

/** The builder of accounts' Dockerfiles: BuildKit in a container for each account, or the engine's own, for accounts that trust each other. */
export type Builder = 'buildkit' | 'engine';

/**
 * The service's whole configuration, read once from the environment. Durations are in seconds and sizes in bytes unless the name says
 * otherwise.
 */
export class Config extends ComputerSettings {
  /** The address on which the service listens. Of a name with several addresses it is the first. */
  host: string;
  /** The port. 0 picks a free one, which first-run.json in the data folder says. */
  port: number;
  /**
   * The address at which callers reach the service.
   * @default the address on which the service listens
   */
  baseUrl: string | null;
  /** The folder of the embedded database, local volumes, the master key, the instance id and first-run.json. */
  dataDir: string;
  /** The folder of the operator's own templates, beside those of the installation. */
  templatesDir: string | null;
  /**
   * The address of an outside PostgreSQL, 15 or later.
   * @default the embedded PostgreSQL
   */
  databaseUrl: string | null;
  /** The store that keeps the log. */
  eventStore: 'postgres' | 'eventstoredb';
  /** The connection string of EventStoreDB (`esdb://…`), which may contain a password. */
  eventStoreUrl: string | null;
  /** The prefix of all streams' names (letters and digits), with which several installations share an EventStoreDB. */
  eventStorePrefix: string | null;
  /** The runtime of agents. `docker` follows `DOCKER_HOST`; `auto` takes Docker if a supported engine answers, and `local` otherwise. */
  runtime: 'auto' | 'docker' | 'local';
  /**
   * The master key, 32 bytes as base64 or hex. It must be given with `NODE_ENV=production`.
   * @default the file `master.key` in the data folder
   */
  masterKey: string | null;
  /** Makes a first agent at the first start. */
  sampleAgent: boolean;
  /** The e-mail address of the first account. */
  adminEmail: string;
  /**
   * The password of the first account.
   * @default generated and printed
   */
  adminPassword: string | null;
  /** Lets anybody register: ten accounts an hour from one address. */
  openRegistration: boolean;
  /**
   * The image with a static busybox at /bin/busybox that fills the helper volume.
   * @default the machine's own static busybox
   */
  helperImage: string | null;
  /**
   * The image of the programs that hold agents to what they may reach: a name, or the path of a tar of it (`docker save`).
   * @default made of this machine's own programs
   */
  egressImage: string | null;
  /** The hosts, `host:port` or `file:`, from which images and repositories may come although they are private. */
  allowPrivateSources: string[];
  /** The most MiB that are received of one repository, which are packed: half of what its files may take. */
  repositoryFetchMaxMb: number;
  /** The most MiB of the files of one repository. Half as much may be received, which is packed. */
  repositoryMaxMb: number;
  /** The most files of one repository, folders and links included. */
  repositoryFilesMax: number;
  /** The hosts, or `host:port`, to which events may be sent although they are private, or without TLS. */
  allowPrivateTargets: string[];
  /** The images of the engine that every account may use, by name; a name without a tag means all its tags. */
  sharedImages: string[];
  /** The seconds after which a frozen agent is stopped. */
  deepSleepAfterSeconds: number;
  /** The seconds within which a deployment ends. */
  deployTimeoutSeconds: number;
  /** The seconds within which a container has to be ready, unless its template says another time. */
  startTimeoutSeconds: number;
  /** The seconds within which an agent has to reply. */
  replyTimeoutSeconds: number;
  /** The most conversations to which one process delivers at once. One account has half of them; one agent 32, or a 125th if that is more. */
  deliveriesMax: number;
  /** The most chats of one account in a minute, and likewise the most webhooks, at all replicas together. */
  chatsPerMinute: number;
  /** The most webhooks of one agent and caller in a minute, at all replicas together. The agent's chats count too. */
  messageBudget: number;
  /** Takes webhooks without the agent's token. */
  tokenlessWebhooks: boolean;
  /** The MiB of webhooks without its token that an agent takes in a day. */
  tokenlessMbPerDay: number;
  /** The MiB of bodies of more than 64 KiB that one process reads of one account in a second. */
  largeBodiesMbPerSecond: number;
  /**
   * The MiB of large reads (pages of histories, logs, threads) that one process sends to one account in a second. Half as much is read of the
   * account's large bodies.
   */
  largeReadsMbPerSecond: number;
  /** The MiB of memory of a container whose template names no limit. */
  agentMemoryMb: number;
  /** The processors of a container. */
  agentCpus: number;
  /** The most processes of a container whose template names no limit. */
  agentPids: number;
  /** The files, sockets and terminals that one process of an agent may have open. */
  agentOpenFiles: number;
  /** The most MiB of an image as its registry sends it, without the layers that the engine has. A pull of more ends. */
  imageMaxMb: number;
  /** The most MiB in an agent's volume, which may have 64 files for each, and at least 10,000; 0 means no limit. */
  volumeMaxMb: number;
  /**
   * The most files, folders and links in an agent's volume. They are counted only where `volumeMaxMb` is a limit.
   */
  volumeFilesMax: number;
  /** The most agents whose containers are inspected or changed concurrently. */
  engineCalls: number;
  /** The most containers that are made or started concurrently. An account has at most half of them. */
  containerStarts: number;
  /** The most images that are built concurrently. An account has at most half of them. */
  imageBuilds: number;
  /** The builder of Dockerfiles: `buildkit`, or `engine`, the engine's own, for accounts that trust each other. */
  builder: Builder;
  /**
   * The image of the builders: a name, or the path of a tar of it (`docker save`), which begins with `/` or `.`.
   * @default made by the engine
   */
  builderImage: string | null;
  /** The AppArmor profile of the builders, where the engine has AppArmor. */
  builderAppArmor: string;
  /** The MiB that the builds of one account and their cache may take. A build that takes more is ended. */
  builderCacheMb: number;
  /** The most caches of accounts that are kept on the engine. The next one replaces the one that was unused the longest. */
  builderCachesMax: number;
  /** The names of the service's own variables whose values all builds of projects without a Dockerfile get. They may hold credentials. */
  buildVariables: Record<string, string>;
  /** The file with more certificates, in PEM, that builds of projects trust. */
  buildCaFile: string | null;
  /** The most images that are pulled concurrently. An account has at most half of them. */
  imagePulls: number;
  /** The number of different images of its newest successful deployments that are kept of each agent. */
  rollbackImagesMax: number;
  /**
   * The OCI runtime of agent containers, such as `runsc` for gVisor.
   * @default the engine's
   */
  containerRuntime: string | null;
  /** The addresses that agents may reach: `internet` and nothing private, `none`, or `all` that their host reaches. */
  agentEgress: EgressMode;
  /** The private addresses or ranges that agents may reach all the same, each with `:port` or for all ports, 100 at most. */
  agentEgressPrivate: OpenRange[];
  /**
   * Starts no agent on an engine that does not enforce its limits.
   * @default `off`; `on` with `NODE_ENV=production`
   */
  requireLimits: boolean;
  /** The way to agents: their containers' own addresses, ports that the engine publishes, or (`auto`) the former if they are reachable. */
  agentAddresses: AgentAddresses;
  /**
   * The IPv4 address of the engine's machine on which ports are published for agents.
   * @default its loopback address
   */
  agentBindAddress: string | null;
  /** The range of the ports that are published at `MOORING_AGENT_BIND_ADDRESS`. */
  agentPorts: string;
  /** The addresses or ranges that alone reach these ports: those of the service as the engine's machine sees it, 100 at most. */
  agentClients: string[];
  /**
   * The file in the form of ssh_config(5) for `DOCKER_HOST=ssh://…`.
   * @default that of the service's user
   */
  sshConfig: string | null;
  /** The MiB of memory for the states of streams. The others are loaded when they are needed. */
  stateCacheMb: number;
  /** The most streams (logs, histories, exports, replies) that one process has open. One account may have a fifth of them. */
  streamsMax: number;
  /** Answers `/metrics` for callers on the same machine only, and not for those for whom a proxy on it calls. */
  metricsLoopbackOnly: boolean;
  /** The token, 16 to 200 characters, that callers of `/metrics` send as `Authorization: Bearer`. It also opens the details of `/ready`. */
  metricsToken: string | null;
  /** The addresses, or ranges of them, of proxies whose `X-Forwarded-For` is trusted. */
  trustedProxies: string[];
  /** The origins, besides the service's own, whose pages may open terminals and call tools, such as `https://app.example.com`. */
  allowedOrigins: string[];
  /** The domain under which each public agent has a host name of its own, `{agent_id}.<domain>`. */
  agentDomain: string | null;
  /** The most requests to public agents that one process has open. One account may have a quarter of them, and one agent a tenth. */
  trafficMax: number;
  /** The seconds after which an open request to a public agent, or a WebSocket, is ended if no byte came or went. */
  trafficIdleSeconds: number;
  /** The seconds between two pings of a WebSocket. A peer that did not answer the last one, or takes no input for ten, is cut off. */
  webSocketPingSeconds: number;
  /** The least severe level of log lines that are written. */
  logLevel: string;
  production: boolean;
}

const DEFAULT_BUILDER: Builder = 'buildkit';

/** Reads the configuration. Throws one error that names every unknown or malformed variable. */
export function readConfig(environment: Environment): Config {
  const read = new SettingReader(environment);
  const production = environment.NODE_ENV === 'production';
  const config: Config = {
    ...placeSettings(read),
    ...accountSettings(read),
    ...agentSettings(read, production),
    ...readComputerSettings(read),
    production,
  };
  read.found.push(...read.unknown().map((name) => `${name} is not a setting of Mooring`));
  checkTogether(config, read.found);
  if (read.found.length > 0) throw new Error(`Configuration refused: ${read.found.join('; ')}.`);
  return config;
}

/** Reads the settings of the service's address, its data and the services that it uses. */
function placeSettings(read: SettingReader) {
  return {
    host: read.text('HOST') ?? '127.0.0.1',
    port: read.integer('PORT', 8080, 0, 65_535),
    baseUrl: withoutLast('/', read.text('MOORING_BASE_URL') ?? '') || null,
    trustedProxies: read.list('MOORING_TRUSTED_PROXIES'),
    allowedOrigins: read.all('MOORING_ALLOWED_ORIGINS', originOf, 'must be origins such as https://app.example.com, without wildcards'),
    webSocketPingSeconds: read.integer('MOORING_WEBSOCKET_PING_SECONDS', 30, 1, 3_600),
    agentDomain: read.text('MOORING_AGENT_DOMAIN')?.toLowerCase() ?? null,
    trafficMax: read.integer('MOORING_TRAFFIC', 2_000, 1, 100_000),
    trafficIdleSeconds: read.integer('MOORING_TRAFFIC_IDLE_SECONDS', 120, 1, 3_600),
    dataDir: resolve(read.text('MOORING_DATA_DIR') ?? '.mooring'),
    templatesDir: read.path('MOORING_TEMPLATES_DIR'),
    databaseUrl: read.text('DATABASE_URL'),
    eventStore: read.choice('EVENT_STORE', ['postgres', 'eventstoredb'], 'postgres'),
    eventStoreUrl: read.text('EVENTSTORE_URL'),
    eventStorePrefix: read.text('EVENTSTORE_PREFIX'),
    stateCacheMb: read.integer('MOORING_STATE_CACHE_MB', 64, 1, 65_536),
    streamsMax: read.integer('MOORING_STREAMS', 1_000, 1, 100_000),
    metricsLoopbackOnly: read.onOff('MOORING_METRICS_LOOPBACK_ONLY', true),
    metricsToken: read.text('MOORING_METRICS_TOKEN'),
    logLevel: read.choice('MOORING_LOG_LEVEL', ['trace', 'debug', 'info', 'warn', 'error', 'silent'], 'info'),
  };
}

/** Reads the settings of the keys, the first account and the first start. */
function accountSettings(read: SettingReader) {
  return {
    masterKey: read.text('MOORING_MASTER_KEY'),
    sampleAgent: read.onOff('MOORING_SAMPLE_AGENT', true),
    adminEmail: read.text('MOORING_ADMIN_EMAIL') ?? 'admin@localhost',
    adminPassword: read.text('MOORING_ADMIN_PASSWORD'),
    openRegistration: read.onOff('MOORING_OPEN_REGISTRATION', false),
  };
}

/** Reads the settings of how agents run and where their images come from. */
function agentSettings(read: SettingReader, production: boolean) {
  return {
    runtime: read.choice('MOORING_RUNTIME', ['auto', 'docker', 'local'], 'auto'),
    containerRuntime: read.text('MOORING_CONTAINER_RUNTIME'),
    helperImage: read.text('MOORING_HELPER_IMAGE'),
    egressImage: read.text('MOORING_EGRESS_IMAGE'),
    allowPrivateSources: read.list('MOORING_ALLOW_PRIVATE_SOURCES'),
    allowPrivateTargets: read.list('MOORING_ALLOW_PRIVATE_TARGETS'),
    sharedImages: read.list('MOORING_SHARED_IMAGES'),
    agentEgress: read.choice('MOORING_AGENT_EGRESS', ['internet', 'none', 'all'], 'internet'),
    agentEgressPrivate: read.all('MOORING_AGENT_EGRESS_PRIVATE', openRange, 'must be addresses or ranges such as 10.1.2.0/24:5432'),
    agentAddresses: read.choice('MOORING_AGENT_ADDRESSES', ['auto', 'container', 'published'], 'auto'),
    agentBindAddress: read.text('MOORING_AGENT_BIND_ADDRESS'),
    agentPorts: read.text('MOORING_AGENT_PORTS') ?? '20000-29999',
    agentClients: read.all('MOORING_AGENT_CLIENTS', clientRange, 'must be IPv4 addresses or ranges such as 10.0.0.7'),
    sshConfig: read.path('MOORING_SSH_CONFIG'),
    agentMemoryMb: read.integer('MOORING_AGENT_MEMORY_MB', 512, 16, 1_048_576),
    agentCpus: read.number('MOORING_AGENT_CPUS', 1, 0.05, 1_024),
    agentPids: read.integer('MOORING_AGENT_PIDS', 256, 16, 1_000_000),
    requireLimits: read.onOff('MOORING_REQUIRE_LIMITS', production),
    agentOpenFiles: read.integer('MOORING_AGENT_OPEN_FILES', 16_384, 256, 1_048_576),
    ...volumeSettings(read),
    engineCalls: read.integer('MOORING_ENGINE_CALLS', 32, 1, 1_024),
    containerStarts: read.integer('MOORING_CONTAINER_STARTS', 16, 1, 1_024),
    buildVariables: read.variables('MOORING_BUILD_ENV'),
    buildCaFile: read.path('MOORING_BUILD_CA_FILE'),
    builder: read.choice('MOORING_BUILDER', ['buildkit', 'engine'], DEFAULT_BUILDER),
    builderImage: read.text('MOORING_BUILDER_IMAGE'),
    builderAppArmor: read.text('MOORING_BUILDER_APPARMOR') ?? 'unconfined',
    builderCacheMb: read.integer('MOORING_BUILDER_CACHE_MB', 10_240, 256, 1_048_576),
    builderCachesMax: read.integer('MOORING_BUILDER_CACHES', 20, 1, 10_000),
    imageBuilds: read.integer('MOORING_IMAGE_BUILDS', 4, 1, 256),
    ...repositorySettings(read),
    imagePulls: read.integer('MOORING_IMAGE_PULLS', 16, 1, 1_024),
    imageMaxMb: read.integer('MOORING_IMAGE_MAX_MB', 8_192, 16, 1_048_576),
    rollbackImagesMax: read.integer('MOORING_ROLLBACK_IMAGES_MAX', 5, 1, 1_000),
    deepSleepAfterSeconds: read.integer('MOORING_DEEP_SLEEP_AFTER', 900, 0, 31_536_000),
    deployTimeoutSeconds: read.integer('MOORING_DEPLOY_TIMEOUT', 900, 1, 86_400),
    startTimeoutSeconds: read.integer('MOORING_START_TIMEOUT', 60, 1, 3_600),
    replyTimeoutSeconds: read.integer('MOORING_REPLY_TIMEOUT', 120, 1, 3_600),
    deliveriesMax: read.integer('MOORING_DELIVERIES', 4_000, 1, 100_000),
    ...largeTransferSettings(read),
    chatsPerMinute: read.integer('MOORING_CHATS_PER_MINUTE', 6_000, 1, 10_000_000),
    messageBudget: read.integer('MOORING_MESSAGE_BUDGET', 30, 1, 1_000),
    tokenlessWebhooks: read.onOff('MOORING_TOKENLESS_WEBHOOKS', true),
    tokenlessMbPerDay: read.integer('MOORING_TOKENLESS_MB_PER_DAY', 16, 1, 1_048_576),
  };
}

/** Reads the settings of repositories. What is received of one is packed, to about half of what its files take. */
function repositorySettings(read: SettingReader) {
  const repositoryMaxMb = read.integer('MOORING_REPOSITORY_MAX_MB', 1_024, 1, 1_048_576);
  return {
    repositoryMaxMb,
    repositoryFetchMaxMb: Math.ceil(repositoryMaxMb / 2),
    repositoryFilesMax: read.integer('MOORING_REPOSITORY_FILES_MAX', 50_000, 1, 10_000_000),
  };
}

/** Reads the settings of one account's large responses. Half as much is read of its large bodies, since parsing them takes more time. */
function largeTransferSettings(read: SettingReader) {
  const largeReadsMbPerSecond = read.integer('MOORING_LARGE_READS_MB_PER_SECOND', 16, 1, 100_000);
  return { largeReadsMbPerSecond, largeBodiesMbPerSecond: Math.ceil(largeReadsMbPerSecond / 2) };
}

/** The number of files that a volume may have for each MiB of its limit, and at least. */
const VOLUME_FILES_PER_MB = 64;
const VOLUME_FILES_MIN = 10_000;

/** Reads the settings of the volumes of agents. A file takes an inode of the disk, of which there is one for about 16 KiB. */
function volumeSettings(read: SettingReader) {
  const volumeMaxMb = read.integer('MOORING_VOLUME_MAX_MB', 10_240, 0, 1_073_741_824);
  return { volumeMaxMb, volumeFilesMax: Math.max(VOLUME_FILES_MIN, volumeMaxMb * VOLUME_FILES_PER_MB) };
}

function checkTogether(config: Config, found: string[]): void {
  if (config.production && config.masterKey === null) found.push('MOORING_MASTER_KEY must be given with NODE_ENV=production');
  if (config.production && config.runtime === 'local')
    found.push('MOORING_RUNTIME=local does not isolate agents and is refused with NODE_ENV=production');
  if (config.eventStore === 'eventstoredb' && config.eventStoreUrl === null)
    found.push('EVENTSTORE_URL must be given with EVENT_STORE=eventstoredb');
  const problem = config.eventStore === 'eventstoredb' && config.eventStoreUrl !== null ? problemOf(config.eventStoreUrl) : null;
  if (problem !== null) found.push(`EVENTSTORE_URL ${problem}`);
  if (config.eventStorePrefix !== null && !/^[a-zA-Z][a-zA-Z0-9]{0,30}$/.test(config.eventStorePrefix))
    found.push('EVENTSTORE_PREFIX must be a letter, followed by at most 30 letters and digits');
  if (config.baseUrl !== null && !/^https?:\/\/[^\s]+$/.test(config.baseUrl))
    found.push('MOORING_BASE_URL must be an http or https address');
  checkPublishedPorts(config, found);
  if (config.agentDomain !== null && !isAgentDomain(config.agentDomain, config.baseUrl))
    found.push("MOORING_AGENT_DOMAIN must be a domain such as agents.example.com, and not that of the service's own address");
  if (!config.sharedImages.every((name) => parseImageReference(name) !== null))
    found.push('MOORING_SHARED_IMAGES must name images: [registry/]name[:tag], separated by commas');
  if (!config.trustedProxies.every((range) => ipaddr.isValid(range) || ipaddr.isValidCIDR(range)))
    found.push('MOORING_TRUSTED_PROXIES must be addresses or ranges such as 10.0.0.0/8, separated by commas');
  if (config.metricsToken !== null && !/^[\x21-\x7e]{16,200}$/.test(config.metricsToken))
    found.push('MOORING_METRICS_TOKEN must have 16 to 200 printable characters without spaces');
  if (config.masterKey !== null && masterKeyBytes(config.masterKey) === null)
    found.push('MOORING_MASTER_KEY must be 32 bytes, as base64 or hex');
}

/** Returns whether agents can have host names under the domain: none of them is the host name of the service itself. */
function isAgentDomain(domain: string, baseUrl: string | null): boolean {
  const isName = domain.length <= 200 && /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(domain);
  const own = baseUrl !== null && URL.canParse(baseUrl) ? new URL(baseUrl).hostname : null;
  return isName && (own === null || (own !== domain && !own.endsWith(`.${domain}`)));
}

/** Returns the 32 bytes that a written master key stands for, or null. */
export function masterKeyBytes(written: string): Buffer | null {
  const bytes = /^[0-9a-fA-F]{64}$/.test(written) ? Buffer.from(written, 'hex') : Buffer.from(written, 'base64');
  return bytes.length === 32 ? bytes : null;
}
