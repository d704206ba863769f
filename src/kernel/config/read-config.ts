import { resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { parseImageReference } from '../network/image-reference.ts';
import { openRange } from '../network/open-ranges.ts';
import type { Builder, Config } from './config.ts';
import { problemOf } from './eventstore-url.ts';
import { originOf } from './origin-of.ts';
import { masterKeyBytes } from './master-key-bytes.ts';
import { checkPublishedPorts, clientRange } from './published-ports.ts';
import { readComputerSettings } from './read-computer-settings.ts';
import { type Environment, SettingReader } from './setting-reader.ts';
import { withoutLast } from '../text/without-last.ts';

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
  read.problems.push(...read.unknown().map((name) => `${name} is not a setting of Mooring`));
  checkTogether(config, read.problems);
  if (read.problems.length > 0) throw new Error(`Configuration refused: ${read.problems.join('; ')}.`);
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
    ...containerBounds(read),
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

/** Reads the settings of the memory and the processors of agents. Agents may ask for more than the default only if the operator says so. */
function containerBounds(read: SettingReader) {
  const agentMemoryMb = read.integer('MOORING_AGENT_MEMORY_MB', 512, 16, 1_048_576);
  const agentMemoryMaxMb = read.integer('MOORING_AGENT_MEMORY_MAX_MB', agentMemoryMb, 16, 1_048_576);
  const agentCpus = read.number('MOORING_AGENT_CPUS', 1, 0.05, 1_024);
  const agentCpusMax = read.number('MOORING_AGENT_CPUS_MAX', agentCpus, 0.05, 1_024);
  return { agentMemoryMb, agentMemoryMaxMb, agentCpus, agentCpusMax };
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
