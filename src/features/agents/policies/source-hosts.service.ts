import { lookup } from 'node:dns/promises';

import { Inject, Injectable, Optional } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { Config } from '../../../kernel/config/config.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import { raceAbort } from '../../../kernel/async/race-abort.ts';
import { invalidField } from '../../../kernel/errors/problem-error.ts';
import { isAllowedSource, parseRepositoryUrl, type RepositoryUrl, repositoryUrlProblem } from '../../../builds/git/repository-url.ts';
import { parseImageReference, type ImageReference } from '../../../kernel/network/image-reference.ts';
import { isPublic, type ResolveHost } from '../../../kernel/network/public-addresses.ts';
import { type Spelling, spelled } from '../../../kernel/text/spelling.ts';

/**
 * The number of names that are resolved concurrently. A name whose server never answers blocks one of the four threads of the process for
 * up to 30 s.
 */
const LOOKUPS_MAX = 2;
const SCOPE_CACHED_MS = 30_000;
const CACHED_SCOPES_MAX = 1_000;
/** The longest time that a caller waits for a name, in ms. The name of an image's registry is resolved again before the pull. */
const CALLER_TIMEOUT_MS = 2_000;

/** The addresses that a host name resolves to: only public ones, at least one private one, or none. */
export type HostScope = 'public' | 'private' | 'unknown';

interface CachedScope {
  scope: HostScope;
  /** The time at which the lookup started, by `performance.now()`. */
  requestedAt: number;
}

/** The injection token of the function that resolves a host. A test provides its own hosts. */
export const RESOLVE_HOST = Symbol('RESOLVE_HOST');

/**
 * Determines whether images and repositories may be fetched from a host. The service and its engine can reach addresses that callers
 * can't, on this machine and its network. It can't see where a public registry redirects the engine.
 */
@Injectable()
export class SourceHosts {
  private readonly allowed: ReadonlySet<string>;
  private readonly lookups = new FairLimiter({ all: LOOKUPS_MAX, account: LOOKUPS_MAX - 1 });
  private readonly scopes = new LRUCache<string, CachedScope>({ max: CACHED_SCOPES_MAX });

  constructor(
    config: Config,
    @Optional() @Inject(RESOLVE_HOST) private readonly resolve: ResolveHost = resolveHost,
  ) {
    this.allowed = new Set(config.allowPrivateSources.map((entry) => entry.toLowerCase()));
  }

  /** Throws ProblemError `invalid_request` if the image would come from a private address. A name that is not resolved within 2 s is accepted. */
  async refuseImage(imageName: string | null | undefined, accountId: string, spelling: Spelling): Promise<void> {
    const host = imageName ? this.hostToResolve(imageName) : null;
    if (host === null || (await this.scopeOfHost(host, accountId, CALLER_TIMEOUT_MS, SCOPE_CACHED_MS)) !== 'private') return;
    const message = 'must not be at a registry with a private address; the operator can allow it with MOORING_ALLOW_PRIVATE_SOURCES';
    throw invalidField(spelled('image_name', spelling), message);
  }

  /**
   * Resolves the name of the image's registry now, without the cache; `unknown` if that takes longer than `withinMs`. The default
   * registry, and those that the operator allows, count as public.
   */
  async scopeOf(imageName: string, accountId: string, withinMs: number): Promise<HostScope> {
    const host = this.hostToResolve(imageName);
    return host === null ? 'public' : this.scopeOfHost(host, accountId, withinMs, 0);
  }

  /** Returns whether the operator allows the repository's host by name, or local paths. */
  isAllowedRepository(repository: RepositoryUrl): boolean {
    return isAllowedSource(repository, this.allowed);
  }

  /**
   * Throws ProblemError `invalid_request` for an address from which no repository may be fetched, under the caller's name of the field. A name
   * that is not resolved within 2 s is accepted, and checked at the connection.
   */
  async refuseRepository(url: string | null | undefined, accountId: string, spelling: Spelling): Promise<void> {
    if (!url) return;
    const field = spelled('repo_url', spelling);
    const problem = repositoryUrlProblem(url);
    if (problem !== null) throw invalidField(field, problem);
    const repository = parseRepositoryUrl(url);
    if (this.isAllowedRepository(repository)) return;
    const allowed = 'the operator can allow it with MOORING_ALLOW_PRIVATE_SOURCES';
    if (repository.protocol === 'file') throw invalidField(field, `must not be a local path; ${allowed}`);
    if (repository.protocol === 'http') throw invalidField(field, `must begin with https://; ${allowed}`);
    if ((await this.scopeOfHost(repository.host, accountId, CALLER_TIMEOUT_MS, SCOPE_CACHED_MS)) === 'private')
      throw invalidField(field, `must not be at a host with a private address; ${allowed}`);
  }

  /** Returns the host of the image's registry; null if it is the default one, or one that the operator allows. */
  private hostToResolve(imageName: string): string | null {
    const registry = parseImageReference(imageName)?.registry ?? null;
    return registry === null || this.isAllowed(registry) ? null : registry.host.toLowerCase();
  }

  /** Returns the cached result if it is at most `ageMaxMs` old, or else the one that is found within `withinMs`. */
  private async scopeOfHost(host: string, accountId: string, withinMs: number, ageMaxMs: number): Promise<HostScope> {
    const oldest = performance.now() - ageMaxMs;
    const known = () => {
      const found = this.scopes.get(host);
      return found !== undefined && found.requestedAt >= oldest ? found.scope : undefined;
    };
    const place = known();
    if (place !== undefined) return place;
    const signal = timeoutSignal(withinMs);
    // Another caller may have resolved the name while this one waited for a slot.
    const found = this.lookups.run({ account: accountId }, signal, async () => known() ?? this.resolveScope(host));
    return raceAbort(found, signal).catch(() => 'unknown');
  }

  private async resolveScope(host: string): Promise<HostScope> {
    const requestedAt = performance.now();
    const scope = scopeOfAddresses(await this.resolve(host));
    this.scopes.set(host, { scope, requestedAt });
    return scope;
  }

  private isAllowed({ host, port }: NonNullable<ImageReference['registry']>): boolean {
    const name = host.toLowerCase();
    return this.allowed.has(name) || (port !== null && this.allowed.has(`${name.includes(':') ? `[${name}]` : name}:${port}`));
  }
}

/** Returns `private` if any of the addresses is private, because the engine may connect to any of them. */
function scopeOfAddresses(addresses: readonly string[]): HostScope {
  if (addresses.length === 0) return 'unknown';
  return addresses.every(isPublic) ? 'public' : 'private';
}

async function resolveHost(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}
