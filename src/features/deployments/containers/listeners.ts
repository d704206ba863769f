import ipaddr from 'ipaddr.js';

/** An address and a port on which a program in a container listens. */
export interface Listener {
  host: string;
  port: number;
  isLoopback: boolean;
}

/** A title in the first line of each table. */
const TABLE_HEAD = 'local_address';
/** The state of a listening socket in the kernel's tables. */
const LISTEN = '0A';
/** The address of the name server that the engine itself runs in a container. */
const ENGINE_DNS = '127.0.0.11';
/** The most listeners that a sentence names. */
const NAMED_MAX = 5;

/** Parses the kernel's tables of TCP sockets, `/proc/net/tcp` and `/proc/net/tcp6`. Returns the listeners by port; null if there is no table. */
export function parseListeners(tables: string): Listener[] | null {
  if (!tables.includes(TABLE_HEAD)) return null;
  const found = new Map<string, Listener>();
  for (const line of tables.split('\n')) {
    const [, local = '', , state] = line.trim().split(/\s+/);
    const listener = state === LISTEN ? listenerAt(local) : null;
    if (listener !== null && listener.host !== ENGINE_DNS) found.set(`${listener.host} ${listener.port}`, listener);
  }
  return [...found.values()].toSorted((a, b) => a.port - b.port);
}

/** Returns the listeners as a sentence names them; the first five of them. */
export function namesOf(listeners: readonly Listener[]): string {
  const names = listeners.slice(0, NAMED_MAX).map(({ host, port }) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`));
  const rest = listeners.length - names.length;
  const all = rest > 0 ? [...names, `${rest} more`] : names;
  return all.length === 1 ? String(all[0]) : `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`;
}

function listenerAt(local: string): Listener | null {
  const [, address = '', port = ''] = /^((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4})$/.exec(local) ?? [];
  const littleEndian = address === '' ? null : hostOf(address, true);
  if (littleEndian === null) return null;
  // The tables show each 32 bits in the byte order of the processor, which for all but a few is the little-endian one.
  const bigEndian = hostOf(address, false);
  const host = bigEndian !== null && isLoopback(bigEndian) ? bigEndian : littleEndian;
  return { host: host.toString(), port: Number.parseInt(port, 16), isLoopback: isLoopback(host) };
}

type Host = ipaddr.IPv4 | ipaddr.IPv6;

function hostOf(address: string, isLittleEndian: boolean): Host | null {
  const words = address.match(/.{8}/g) ?? [];
  const bytes = words.flatMap((word) => {
    const inOrder = [...Buffer.from(word, 'hex')];
    return isLittleEndian ? inOrder.toReversed() : inOrder;
  });
  if (bytes.length !== 4 && bytes.length !== 16) return null;
  const host = ipaddr.fromByteArray(bytes);
  return host instanceof ipaddr.IPv6 && host.isIPv4MappedAddress() ? host.toIPv4Address() : host;
}

function isLoopback(host: Host): boolean {
  return host.range() === 'loopback';
}
