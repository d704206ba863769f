/** The addresses on which a program in a container listens on a port: none, loopback addresses only, or others too. */
export type Listening = 'nowhere' | 'loopback' | 'everywhere';

const LISTEN = '0A';
/** The loopback addresses as the tables show them: each 32 bits in the byte order of the processor, for both orders. */
const loopback = /^([0-9A-F]{6}7F|7F[0-9A-F]{6}|0{24}01000000|0{24}00000001|0{16}(FFFF0000|0000FFFF)([0-9A-F]{6}7F|7F[0-9A-F]{6}))$/;

/** Parses the kernel's tables of TCP sockets, `/proc/net/tcp` and `/proc/net/tcp6`. */
export function listeningOn(tables: string, port: number): Listening {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  const addresses = tables.split('\n').flatMap((line) => {
    const [, local = '', , state] = line.trim().split(/\s+/);
    const [address = '', at] = local.split(':');
    return state === LISTEN && at === wanted ? [address] : [];
  });
  if (addresses.length === 0) return 'nowhere';
  return addresses.every((address) => loopback.test(address)) ? 'loopback' : 'everywhere';
}

/** Returns a sentence about a port that the service can't connect to; null if no program listens on it. */
export function unreachableReason(listening: Listening, host: string, port: number): string | null {
  switch (listening) {
    case 'nowhere':
      return null;
    case 'loopback':
      return `Its program listens on port ${port} of the loopback address alone, where nobody outside of the container reaches it: let it listen on 0.0.0.0.`;
    case 'everywhere':
      return (
        `Its program listens on port ${port}, but its address, ${host}, is not reachable from the service: the operator has to set ` +
        'MOORING_AGENT_ADDRESSES, or what the documentation says about “The way to agents”.'
      );
  }
}
