import type { Bridges } from './bridges.ts';
import { macOf } from './links.ts';
import { chainCommands, setCommands } from './nft-script.ts';

/** The time for which a port stays known after the host last sent a packet through it. */
const PORT_KNOWN = '1d';
/** The largest number of known ports; ports of containers that have ended count until they expire. */
const PORTS_MAX = 262_144;
/** The rate of ARP and neighbour requests for other addresses that a port passes on to the host. */
const QUESTIONS = '20/second burst 20 packets';

/**
 * The bit of a packet's mark which shows the rules that the host sends it over a bridge of ours. The mark is cleared where the packet
 * enters a container.
 */
const SENT = '0x1000';

const nameOf = (instance: string): string => `mooring_${instance}`;
/** The tables of the `ip` family match bridges, and those of the `bridge` family match their ports. */
const families = ['ip', 'bridge'];

/** Returns the script that removes the tables of the installation's links. */
export const noLinkRules = (instance: string): string =>
  families.map((family) => `add table ${family} ${nameOf(instance)}\ndelete table ${family} ${nameOf(instance)}\n`).join('');

/**
 * Returns the rules that isolate the containers of a network from each other's frames, as one nft transaction, which may be loaded again at
 * any time. A frame between two ports does not show its bridge, so a port has to be known to be ours: it is known as soon as the host sends
 * a packet through it over a bridge of ours. No frame of another bridge is ever affected, whatever its addresses are. No frame passes
 * between known ports, or between a known and another port, except between the proxy of a listed network and the others. The last command
 * of the script lists the counters.
 */
export function linkRules(instance: string, { links }: Pick<Bridges, 'links'>): string {
  const table = `bridge ${nameOf(instance)}`;
  const senders = `ip ${nameOf(instance)}`;
  const proxies: Proxy[] = links.flatMap(({ proxy }) => (proxy === null ? [] : [{ address: proxy, mac: macOf(proxy) }]));
  const ranges = (ofListed: boolean): string[] => links.filter(({ proxy }) => (proxy !== null) === ofListed).map(({ subnet }) => subnet);
  const gateways = links.map(({ gateway }) => gateway);
  const learn = (to: string, ports: string): string => `meta mark & ${SENT} == ${SENT} ip daddr @${to} update @${ports} { meta oif }`;
  const hook = (name: string): string => ` { type filter hook ${name} priority filter; policy accept; }`;
  return [
    `add table ${senders}`,
    ...chainCommands(
      senders,
      'postrouting',
      links.map(({ bridge }) => `oifname "${bridge}" meta mark set meta mark | ${SENT}`),
      hook('postrouting'),
    ),
    `add table ${table}`,
    `add counter ${table} refused_agents`,
    ...['ports', 'listed_ports'].map(
      (name) => `add set ${table} ${name} { type iface_index; flags dynamic,timeout; timeout ${PORT_KNOWN}; size ${PORTS_MAX}; }`,
    ),
    `add set ${table} askers { type iface_index; flags dynamic,timeout; timeout 1m; size ${PORTS_MAX}; }`,
    ...setCommands(table, 'ranges', 'ipv4_addr', ranges(false), 'flags interval; '),
    ...setCommands(table, 'listed_ranges', 'ipv4_addr', ranges(true), 'flags interval; '),
    ...setCommands(table, 'gateways', 'ipv4_addr', gateways),
    ...chainCommands(table, 'asking', [`update @askers { meta iif limit rate over ${QUESTIONS} } drop`]),
    // A broadcast frame is dropped on input, since it would be copied for each port. Address requests are rate-limited instead:
    // newer engines announce the address of a new container to the host by such a request.
    ...chainCommands(table, 'from_port', [
      'meta protocol ip meta pkttype { broadcast, multicast } counter name refused_agents drop',
      'arp operation request arp daddr ip != @gateways counter name refused_agents jump asking',
    ]),
    ...chainCommands(table, 'from_listed_port', [...proxies.flatMap(fromListed), 'goto from_port']),
    // The copies of a request for the host do not try to reach another container, so only unicast frames are counted.
    ...chainCommands(table, 'apart', ['meta pkttype != { broadcast, multicast } counter name refused_agents', 'drop']),
    ...chainCommands(table, 'listed', [...proxies.flatMap(amongListed), 'goto apart']),
    ...chainCommands(table, 'output', [learn('ranges', 'ports'), learn('listed_ranges', 'listed_ports')], hook('output')),
    ...chainCommands(
      table,
      'prerouting',
      ['meta iif @ports goto from_port', 'meta iif @listed_ports goto from_listed_port'],
      hook('prerouting'),
    ),
    ...chainCommands(
      table,
      'forward',
      [
        ...['iif', 'oif'].map((end) => `meta ${end} @listed_ports goto listed`),
        ...['iif', 'oif'].map((end) => `meta ${end} @ports goto apart`),
      ],
      hook('forward'),
    ),
    `list counters table ${table}`,
    '',
  ].join('\n');
}

interface Proxy {
  address: string;
  mac: string;
}

/**
 * Returns the rules for frames from an agent with an allowlist, or from its proxy. An address request for the proxy is delivered only to
 * the proxy.
 */
const fromListed = ({ address, mac }: Proxy): string[] => [
  `ether saddr ${mac} arp saddr ip ${address} accept`,
  `arp operation request arp daddr ip ${address} ether daddr set ${mac} accept`,
];

/** Returns the rules for frames between such agents and their proxy. Their content is filtered at the IP level. */
const amongListed = ({ address, mac }: Proxy): string[] => [
  `ether daddr ${mac} ip daddr ${address} accept`,
  `ether saddr ${mac} ip saddr ${address} accept`,
  `arp operation request arp daddr ip ${address} accept`,
  `ether daddr ${mac} arp daddr ip ${address} accept`,
  `ether saddr ${mac} arp saddr ip ${address} accept`,
];
