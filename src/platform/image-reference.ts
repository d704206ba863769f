/** An image's name taken apart, as engines read it: `[registry/]repository[:tag][@digest]`. */
export interface ImageReference {
  /** Null: the engine's default registry. The host of an IPv6 address stands without its brackets. */
  registry: { host: string; port: number | null } | null;
  repository: string;
  tag: string | null;
  digest: string | null;
}

const LENGTH_MAX = 255;
const hostName = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*';
const part = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const grammar = new RegExp(
  `^(?:(?<host>${hostName}|\\[[0-9a-fA-F:]+\\])(?::(?<port>[0-9]{1,5}))?/)?(?<path>${part}(?:/${part})*)` +
    '(?::(?<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?(?:@(?<digest>sha256:[0-9a-f]{64}))?$',
);
/** An engine takes these for an image's id, whoever made that image. */
const bareId = /^(?:sha256:)?[0-9a-f]{64}$/;

/** Null where the text is no name of an image; an image's id or digest without a repository is none. */
export function parseImageReference(text: string): ImageReference | null {
  if (text.length > LENGTH_MAX || bareId.test(text)) return null;
  const { host, port, path = '', tag, digest } = grammar.exec(text)?.groups ?? {};
  if (path === '') return null;
  const rest = { tag: tag ?? null, digest: digest ?? null };
  // As engines tell them apart: the first part of a name is a registry only where it looks like a host.
  const isRegistry = host !== undefined && (port !== undefined || /[.[A-Z]/.test(host) || host === 'localhost');
  if (!isRegistry) return { registry: null, repository: host === undefined ? path : `${host}/${path}`, ...rest };
  return { registry: { host: host.replace(/^\[|\]$/g, ''), port: port === undefined ? null : Number(port) }, repository: path, ...rest };
}

/** The repository with its registry, in the one spelling that stands for all of them: `nginx` and `docker.io/library/nginx` are equal. */
export function canonicalRepository({ registry, repository }: ImageReference): string {
  const host = registry === null || registry.host === 'index.docker.io' ? 'docker.io' : registry.host.toLowerCase();
  const path = host === 'docker.io' && !repository.includes('/') ? `library/${repository}` : repository;
  return `${host}${registry?.port == null ? '' : `:${registry.port}`}/${path}`;
}

/** Whether the two name one image: the same repository and digest, or the same tag (`latest` where none is said). */
export function namesSameImage(one: ImageReference, other: ImageReference): boolean {
  if (canonicalRepository(one) !== canonicalRepository(other)) return false;
  if (one.digest !== null || other.digest !== null) return one.digest === other.digest;
  return (one.tag ?? 'latest') === (other.tag ?? 'latest');
}
