import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { OpenRange } from '../../../kernel/network/open-ranges.ts';

const LOOKUP_MS = 5_000;
const ADDRESSES_MAX = 256;

/** A host that builds may reach, whatever the egress rules say: a mirror of a registry, or a proxy. */
export interface Mirror {
  host: string;
  port: number;
}

/** Returns the hosts that the build variables name, from each value that is a list of http and https addresses separated by spaces. */
export function mirrorsOf(variables: Record<string, string>): Mirror[] {
  const urls = Object.values(variables)
    .flatMap((value) => value.split(/\s+/))
    .filter((word) => /^https?:\/\//i.test(word) && URL.canParse(word))
    .map((word) => new URL(word));
  const found = urls.map(({ hostname, port, protocol }) => ({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
  }));
  return [...new Map(found.map((mirror) => [`${mirror.host} ${mirror.port}`, mirror])).values()];
}

/**
 * Resolves the addresses of mirrors. An address that was found is kept, because a name may have more addresses than one response contains.
 */
export class MirrorAddresses {
  private found = new Map<string, OpenRange>();

  constructor(private readonly mirrors: readonly Mirror[]) {}

  async read(): Promise<OpenRange[]> {
    const answers = await Promise.all(this.mirrors.map(addressesOf));
    for (const range of answers.flat()) this.found.set(JSON.stringify(range), range);
    this.found = new Map([...this.found].slice(-ADDRESSES_MAX));
    return [...this.found.values()];
  }
}

async function addressesOf({ host, port }: Mirror): Promise<OpenRange[]> {
  const addresses = isIP(host) === 0 ? await lookedUp(host) : [host];
  return addresses.map((address) => {
    const isV6 = isIP(address) === 6;
    return { family: isV6 ? 'ip6' : 'ip', range: `${address}/${isV6 ? 128 : 32}`, port };
  });
}

/** A name that is not found has no addresses; the next load of the rules resolves it again. */
async function lookedUp(host: string): Promise<string[]> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<[]>((resolve) => {
    timer = setTimeout(() => resolve([]), LOOKUP_MS);
  });
  const answers = lookup(host, { all: true }).catch(() => []);
  const found = await Promise.race([answers, late]);
  clearTimeout(timer);
  return found.map(({ address }) => address);
}
