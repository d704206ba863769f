import type Dockerode from 'dockerode';
import type { EngineStatus } from '../../engine-status.ts';
import { EngineUnsupported, RuntimeRefused } from '../../runtime.errors.ts';
import { limitFacts, versionFacts, type InfoAnswer, type LimitFacts, type VersionFacts } from './engine-facts.ts';
import type { EngineHealth } from './engine-health.ts';
import { call } from './engine.ts';
import { LOWEST_SAFE_VERSION, type VersionAnswer } from './engine-version.ts';

const CANNOT_FREEZE = 'the engine can’t freeze containers, so agents sleep by being stopped, and lose what they have in memory';
const OUTDATED = `the Docker Engine is older than ${LOWEST_SAFE_VERSION}, which mends faults in its calls on the files of containers; upgrade it`;
const SWAP = 'the engine does not limit swap: where its machine has some, agents take it beyond their memory';

export interface EngineChecksOptions {
  /** The value is true if no agent may start on an engine that does not enforce its limits. */
  requireLimits: boolean;
  /** Receives a problem of the engine, once until it changes. */
  warn: (fields: object, message: string) => void;
}

interface EngineFacts {
  version: Promise<VersionFacts>;
  limits: Promise<LimitFacts>;
}

/** The calls as they are: the client library accepts a signal, though its types do not say so. */
interface EngineCalls {
  version(options: { abortSignal: AbortSignal }): Promise<VersionAnswer>;
  info(options: { abortSignal: AbortSignal }): Promise<InfoAnswer>;
}

/** Knows the engine's version and abilities, which are read once for each connection. */
export class EngineChecks {
  private latest: EngineFacts | null = null;
  /** The last results, for callers that can't wait. */
  private known = { isSupported: true, canFreeze: true };
  private refusesFreeze = false;
  private readonly warned = new Map<string, string>();

  constructor(
    private readonly docker: Dockerode,
    private readonly health: EngineHealth,
    private readonly options: EngineChecksOptions,
  ) {}

  /** Returns false if the engine that responded last can't be used. */
  get isSupported(): boolean {
    return this.known.isSupported;
  }

  get canFreeze(): boolean {
    return this.known.canFreeze && !this.refusesFreeze;
  }

  /** Notes that the engine refused to freeze a container, as it would refuse for every other one. */
  noteFreezeRefused(): void {
    this.refusesFreeze = true;
    this.warn('freeze', {}, 'THE CONTAINER ENGINE CAN’T FREEZE AGENTS: they sleep by being stopped');
  }

  /** Reads the facts of the engine again, which may be another one, or may have been upgraded. */
  check(): void {
    this.renew();
  }

  /** Returns what the operator should know. Throws `RuntimeUnavailable`. */
  async status(): Promise<EngineStatus> {
    const { unsupported, hasFaults } = await this.facts.version;
    if (unsupported !== null) return { lack: unsupported, warnings: [] };
    const { unenforced, isSwapUnlimited } = await this.facts.limits;
    const { requireLimits } = this.options;
    const warnings = [
      hasFaults ? OUTDATED : null,
      requireLimits ? null : unenforced,
      isSwapUnlimited ? SWAP : null,
      this.canFreeze ? null : CANNOT_FREEZE,
    ];
    return { lack: requireLimits ? unenforced : null, warnings: warnings.filter((warning) => warning !== null) };
  }

  /** Returns whether containers have only some 65,536 user ids. Throws `RuntimeUnavailable`. */
  async hasFewIds(): Promise<boolean> {
    return (await this.facts.limits).hasFewIds;
  }

  /** Throws `EngineUnsupported` if the engine can't be used, and `RuntimeUnavailable`. */
  async assertSupported(): Promise<void> {
    const { unsupported } = await this.facts.version;
    if (unsupported !== null) throw new EngineUnsupported(unsupported);
  }

  /** Throws as `assertSupported` does, and `RuntimeRefused` if the engine does not enforce required limits. */
  async assertStartable(): Promise<void> {
    await this.assertSupported();
    if (!this.options.requireLimits) return;
    const { unenforced } = await this.facts.limits;
    if (unenforced !== null) throw new RuntimeRefused(`No agent is started here: ${unenforced} (MOORING_REQUIRE_LIMITS).`);
  }

  private get facts(): EngineFacts {
    return this.latest ?? this.renew();
  }

  private renew(): EngineFacts {
    this.refusesFreeze = false;
    const version = this.readVersion();
    const latest = { version, limits: this.readLimits(version) };
    this.latest = latest;
    // A failure is shared only by the callers that already wait for it.
    for (const answer of Object.values(latest))
      answer.catch(() => {
        if (this.latest === latest) this.latest = null;
      });
    return latest;
  }

  private async readVersion(): Promise<VersionFacts> {
    const facts = versionFacts(await this.query((docker, options) => docker.version(options)));
    const { version, unsupported, hasFaults } = facts;
    this.known.isSupported = unsupported === null;
    this.warn('support', unsupported === null ? null : { reason: unsupported }, 'THE CONTAINER ENGINE IS NOT SUPPORTED');
    this.warn(
      'version',
      hasFaults ? { version, lowest: LOWEST_SAFE_VERSION } : null,
      'THE DOCKER ENGINE HAS KNOWN FAULTS (CVE-2026-41568, CVE-2026-42306): upgrade it',
    );
    return facts;
  }

  private async readLimits(version: Promise<VersionFacts>): Promise<LimitFacts> {
    const [facts, { unsupported }] = await Promise.all([this.query((docker, options) => docker.info(options)).then(limitFacts), version]);
    if (unsupported !== null) return facts;
    const { unenforced, isSwapUnlimited, canFreeze } = facts;
    this.known.canFreeze = canFreeze;
    const { requireLimits } = this.options;
    this.warn(
      'limits',
      unenforced === null ? null : { reason: unenforced, starts: requireLimits ? 'refused' : 'allowed' },
      'THE CONTAINER ENGINE DOES NOT ENFORCE THE LIMITS OF AGENTS (MOORING_REQUIRE_LIMITS)',
    );
    this.warn('swap', isSwapUnlimited ? {} : null, SWAP);
    this.warn('freeze', canFreeze ? null : {}, 'THE CONTAINER ENGINE CAN’T FREEZE AGENTS: they sleep by being stopped');
    return facts;
  }

  /** Returns the engine's response, or its refusal. */
  private async query<T>(
    question: (docker: EngineCalls, options: { abortSignal: AbortSignal }) => Promise<T>,
  ): Promise<T | RuntimeRefused> {
    const work = (abortSignal: AbortSignal) => question(this.docker, { abortSignal });
    return this.health
      .observe(() => call(null, work))
      .catch((error: unknown) => {
        if (error instanceof RuntimeRefused) return error;
        throw error;
      });
  }

  /** Logs the message once for the same fields; null means that nothing is wrong. */
  private warn(subject: string, fields: object | null, message: string): void {
    const key = fields === null ? '' : JSON.stringify(fields);
    if (fields !== null && this.warned.get(subject) !== key) this.options.warn(fields, message);
    this.warned.set(subject, key);
  }
}
