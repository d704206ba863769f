/**
 * The settings that may follow the question mark, in lower case without `_` and `-`. Others are refused, because the client prints an
 * unknown one together with the password.
 */
const settings: Record<string, RegExp> = {
  tls: /^(true|false)$/,
  tlscafile: /^.+$/,
  usercertfile: /^.+$/,
  userkeyfile: /^.+$/,
  nodepreference: /^(leader|follower|random|read_only_replica)$/i,
  maxdiscoverattempts: /^\d{1,6}$/,
  discoveryinterval: /^\d{1,6}$/,
  gossiptimeout: /^\d{1,6}$/,
  keepaliveinterval: /^\d{5,9}$/,
  keepalivetimeout: /^\d{1,9}$/,
  defaultdeadline: /^[1-9]\d{0,8}$/,
  connectionname: /^.+$/,
};

/**
 * The default settings, in ms except the gossip timeout, which is in seconds. They were chosen in tests with leaders that were
 * killed and frozen.
 */
const defaults: Record<string, string> = {
  nodePreference: 'leader',
  gossipTimeout: '1',
  maxDiscoverAttempts: '5',
  discoveryInterval: '200',
  keepAliveInterval: '10000',
  keepAliveTimeout: '3000',
  defaultDeadline: '3000',
  connectionName: 'mooring',
};

const form = /^esdb(?:\+discover)?:\/\/(?:([^:@/?]+):([^@/?]+)@)?([^@/?]+)\/?(?:\?(.*))?$/;
const host = /^[\w.-]+(:\d{1,5})?$/;
const flat = (name: string) => name.toLowerCase().replaceAll(/[_-]/g, '');

/**
 * Returns what is wrong with the connection string, or null if nothing is. The text quotes no part of the string, which may contain a
 * password.
 */
export function problemOf(url: string): string | null {
  const found = form.exec(url);
  if (!found) return 'must be an address like esdb://host:2113?tls=false or esdb://user:password@host-1:2113,host-2:2113';
  const [, user, , hosts = '', query] = found;
  if (!hosts.split(',').every((each) => host.test(each))) return 'must name its hosts as host or host:port, with commas between';
  if (url.startsWith('esdb+discover') && hosts.includes(',')) return 'takes one host after esdb+discover://; list several after esdb://';
  let tls = true;
  for (const setting of query === undefined ? [] : query.split('&')) {
    const [name = '', value = '', ...rest] = setting.split('=');
    const allowed = settings[flat(name)];
    if (allowed === undefined || rest.length > 0) return `has a setting after the question mark that is not one of its own`;
    if (!allowed.test(value)) return `has no good value for ${flat(name)}`;
    if (flat(name) === 'tls') tls = value === 'true';
  }
  return tls && user === undefined ? 'must name a user and a password, since the connection uses TLS (tls=false turns it off)' : null;
}

/** Returns the connection string with the defaults of the settings that it lacks. The connection string must be free of problems. */
export function withDefaults(url: string): string {
  const [address = '', query = ''] = url.split('?');
  const given = query.split('&').filter(Boolean);
  const names = new Set(given.map((setting) => flat(setting.split('=')[0] ?? '')));
  const added = Object.entries(defaults).flatMap(([name, value]) => (names.has(flat(name)) ? [] : [`${name}=${value}`]));
  return `${address.replace(/\/$/, '')}?${[...given, ...added].join('&')}`;
}

/** Returns the user and the password in the connection string, or null if it has none. */
export function credentialsOf(url: string): { username: string; password: string } | null {
  const [, user, password] = form.exec(url) ?? [];
  return user === undefined || password === undefined
    ? null
    : { username: decodeURIComponent(user), password: decodeURIComponent(password) };
}
