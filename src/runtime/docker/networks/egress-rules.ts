import type { OpenRange } from '../../../kernel/network/open-ranges.ts';
import type { EgressMode } from '../../../kernel/config/config.ts';
import type { Bridges } from './bridges.ts';
import { PROXY_PORT } from './listed-addresses.ts';
import { chainCommands, setCommands } from './nft-script.ts';
import { privateRanges4, privateRanges6 } from '../../../kernel/network/private-addresses.ts';

/** The private addresses that agents may reach. */
export interface Opened {
  /** The servers that the engine queries for names on behalf of agents. */
  nameservers: readonly string[];
  /** The ranges that the operator opens. */
  ranges: readonly OpenRange[];
  /** The addresses that builds may reach, private or not. */
  mirrors: readonly OpenRange[];
  /** The addresses of the proxy of agents with a list of names, which connects on behalf of all of them. */
  proxies: readonly string[];
}

/**
 * The number of connections that one agent or builder may have through the host at a time, of new ones a second, and of the initial burst:
 * the host has one connection table for all of them and itself, in which a closed connection stays for two minutes.
 */
const CONNECTIONS_MAX = 2_000;
const CONNECTIONS_A_SECOND = 100;
/** The same limits for a proxy, which limits each agent's share itself. */
const PROXY_CONNECTIONS_MAX = 8_192;

/** The kinds of destinations of refused packets; `connections` counts packets of connections above an agent's limit. */
export const refusedTo = ['private', 'host', 'agents', 'anywhere', 'connections'] as const;

const nameOf = (instance: string): string => `inet mooring_${instance}`;

/** Returns the script that removes the installation's table. */
export const noRules = (instance: string): string => `add table ${nameOf(instance)}\ndelete table ${nameOf(instance)}\n`;

/**
 * Returns the rules of an installation as one nft transaction. It may be loaded again at any time: it undoes changes by others, and keeps
 * the counters. Each rule begins with a bridge of the installation, so that no other traffic is affected. Responses to callers of an agent
 * pass; every other packet is filtered by its destination, so a connection made while the rules were missing ends when they are back. The
 * last command of the script lists the counters. In every mode agents and builds are isolated from each other, whatever rules the engine
 * has of its own: engines remove theirs for moments, for example when a network is created. In mode `all` only agents without a way out, or
 * with an allowlist, are restricted further.
 */
export function egressRules(instance: string, mode: EgressMode, { open, closed, builds, listed }: Bridges, opened: Opened): string {
  const table = nameOf(instance);
  const chain = (name: string, rules: string[], hook = ''): string[] => chainCommands(table, name, rules, hook);
  const set = (name: string, type: string, elements: readonly string[], flags = ''): string[] =>
    setCommands(table, name, type, elements, flags);
  const refuse = (to: (typeof refusedTo)[number]): string => `counter name refused_${to} goto refuse`;
  const names = (family: string, version: 4 | 6): string =>
    `${family} daddr @nameservers${version} meta l4proto { tcp, udp } th dport 53 accept`;
  const answers = 'ct direction reply ct state established accept';
  const neighbours = 'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } accept';
  const ours = [...open, ...closed, ...builds, ...listed.map(({ bridge }) => bridge)].map((bridge) => `"${bridge}"`);
  const leave = ({ family, range, port }: OpenRange): string =>
    `${family} daddr ${range} meta l4proto { tcp, udp } th dport ${port ?? '0-65535'} accept`;
  const toHost = mode === 'none' ? [] : [names('ip', 4), names('ip6', 6), ...opened.ranges.map(leave)];
  const toMirrors = [names('ip', 4), names('ip6', 6), ...opened.mirrors.map(leave)];
  const outward =
    mode === 'none'
      ? [refuse('anywhere')]
      : [...toHost, `ip daddr @private4 ${refuse('private')}`, `ip6 daddr @private6 ${refuse('private')}`];
  const bounded = 'ct state new jump bounded';
  const hooked = (hook: 'forward' | 'input'): string[] =>
    chain(
      hook,
      [
        ...(hook === 'forward' ? [...listed.map(toProxy), 'iifname @ours jump among_ours'] : []),
        ...(mode === 'all' ? [] : open.map((bridge) => `iifname "${bridge}" jump open_${hook}`)),
        ...(mode === 'all' ? [] : builds.map((bridge) => `iifname "${bridge}" jump builds_${hook}`)),
        ...[...closed, ...listed.map(({ bridge }) => bridge)].map((bridge) => `iifname "${bridge}" jump closed_${hook}`),
      ],
      ` { type filter hook ${hook} priority filter - 10; policy accept; }`,
    );
  // Packets between the containers of one bridge go through these chains, too.
  const toProxy = ({ bridge, proxy }: Bridges['listed'][number]): string =>
    `iifname "${bridge}" oifname "${bridge}" ip daddr ${proxy} tcp dport ${PROXY_PORT} accept`;
  return [
    `add table ${table}`,
    ...refusedTo.map((to) => `add counter ${table} refused_${to}`),
    ...set('ours', 'ifname', ours),
    ...set('private4', 'ipv4_addr', privateRanges4, 'flags interval; '),
    ...set('private6', 'ipv6_addr', privateRanges6, 'flags interval; '),
    ...set(
      'nameservers4',
      'ipv4_addr',
      opened.nameservers.filter((address) => !address.includes(':')),
    ),
    ...set(
      'nameservers6',
      'ipv6_addr',
      opened.nameservers.filter((address) => address.includes(':')),
    ),
    ...chain('refuse', ['meta l4proto tcp reject with tcp reset', 'reject with icmpx admin-prohibited']),
    ...boundedConnections(table, opened.proxies, refuse('connections')),
    ...chain('among_ours', [answers, `oifname @ours ${refuse('agents')}`]),
    ...chain('open_forward', [bounded, ...outward]),
    ...chain('builds_forward', [bounded, ...toMirrors, ...outward]),
    ...chain('closed_forward', [refuse('anywhere')]),
    ...chain('open_input', [answers, neighbours, bounded, ...toHost, refuse('host')]),
    ...chain('builds_input', [answers, neighbours, bounded, ...toMirrors, ...toHost, refuse('host')]),
    ...chain('closed_input', [answers, neighbours, refuse('host')]),
    ...hooked('forward'),
    ...hooked('input'),
    `list counters table ${table}`,
    '',
  ].join('\n');
}

/**
 * Returns the chain for new connections. Its sets are never cleared, since the kernel counts only the connections that were added to them;
 * it removes addresses without connections by itself.
 */
function boundedConnections(table: string, proxies: readonly string[], refuse: string): string[] {
  const families = [
    { version: 4, source: 'ip saddr', own: proxies.filter((address) => !address.includes(':')) },
    { version: 6, source: 'ip6 saddr', own: proxies.filter((address) => address.includes(':')) },
  ];
  const kept = (name: string, type: string, more = ''): string =>
    `add set ${table} ${name} { type ${type}; size 65535; flags dynamic${more} }`;
  return [
    ...families.flatMap(({ version, own }) => [
      ...setCommands(table, `proxies${version}`, `ipv${version}_addr`, own),
      kept(`connections${version}`, `ipv${version}_addr`, ';'),
      kept(`proxied${version}`, `ipv${version}_addr`, ';'),
      kept(`openings${version}`, `ipv${version}_addr`, ',timeout; timeout 1m;'),
    ]),
    ...chainCommands(
      table,
      'bounded',
      families.flatMap(({ version, source }) => [
        `${source} @proxies${version} add @proxied${version} { ${source} ct count over ${PROXY_CONNECTIONS_MAX} } ${refuse}`,
        `${source} @proxies${version} return`,
        `add @connections${version} { ${source} ct count over ${CONNECTIONS_MAX} } ${refuse}`,
        `update @openings${version} { ${source} limit rate over ${CONNECTIONS_A_SECOND}/second burst ${CONNECTIONS_MAX} packets } ${refuse}`,
      ]),
    ),
  ];
}

/** Returns the number of packets refused since the tables were created, by destination, from nft's lists of counters. */
export function refusedPackets(listed: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [, to = '', packets] of listed.matchAll(/counter refused_(\w+) \{\s*packets (\d+)/g))
    counts.set(to, (counts.get(to) ?? 0) + Number(packets));
  return counts;
}
