/**
 * The addresses that belong to one machine or one network: this network, private use, shared by a provider's customers, loopback,
 * link-local (which includes 169.254.169.254, where clouds serve secrets), protocols, benchmarks, multicast, and reserved ones.
 * Azure's platform answers its virtual machines, and nobody else, at 168.63.129.16, which lies in a public range.
 */
export const privateRanges4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
] as const;

/**
 * The same for IPv6: unspecified and loopback, mapped IPv4, the two translations of IPv4 that belong to one network, discard, tunnels
 * (Teredo, 6to4), private, link-local and site-local, multicast. Of 64:ff9b::/96, by which networks without IPv4 reach the internet, only
 * the private addresses are included.
 */
export const privateRanges6 = [
  '::/127',
  '::ffff:0:0/96',
  '64:ff9b:1::/48',
  ...privateRanges4.map(translated),
  '100::/64',
  '2001::/32',
  '2002::/16',
  'fc00::/7',
  'fe80::/9',
  'ff00::/8',
];

/** Returns an IPv4 range within 64:ff9b::/96. */
function translated(range: string): string {
  const [address = '', bits = ''] = range.split('/');
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
  return `64:ff9b::${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}/${96 + Number(bits)}`;
}
