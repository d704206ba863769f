import type { OpenRange } from '../network/open-ranges.ts';
import { ComputerSettings } from './computer-settings.ts';

/** The addresses that agents may reach: the internet without private networks, nothing at all, or everything that their host can reach. */
export type EgressMode = 'internet' | 'none' | 'all';

/**
 * The addresses under which agents are reached: those of their containers, ports that the engine publishes for them, or (`auto`) the former
 * if they are reachable.
 */
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
  /** Accepts webhooks without the agent's token. */
  tokenlessWebhooks: boolean;
  /** The MiB of webhooks without its token that an agent accepts in a day. */
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
  /**
   * The most MiB of memory that an agent may ask for by `memory_mb`.
   * @default as `MOORING_AGENT_MEMORY_MB`
   */
  agentMemoryMaxMb: number;
  /** The processors of a container whose agent asks for no number. */
  agentCpus: number;
  /**
   * The most processors that an agent may ask for by `cpus`.
   * @default as `MOORING_AGENT_CPUS`
   */
  agentCpusMax: number;
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
  /** The AppArmor profile of the builders, on engines that have AppArmor. */
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
  /** The number of different images, of its newest successful deployments, that are kept for each agent. */
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
