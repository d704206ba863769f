import ipaddr from 'ipaddr.js';

/** The place of the engine, as given by `DOCKER_HOST` and related variables. */
export type EnginePlace =
  /** A socket file, or a port on this machine's loopback address. The client library finds it by itself. */
  | { kind: 'near' }
  | { kind: 'ssh'; user: string | null; host: string; port: number | null; socket: string }
  | { kind: 'tls'; host: string; port: number; certificates: string };

const SOCKET_DEFAULT = '/var/run/docker.sock';
const TLS_PORT_DEFAULT = 2376;

type Environment = Record<string, string | undefined>;

/** Reads the place of the engine. Throws an error for the operator if it is malformed, or on another machine without protection. */
export function enginePlace(environment: Environment): EnginePlace {
  const written = environment.DOCKER_HOST ?? '';
  if (written === '' || /^(unix|npipe):\/\//.test(written)) return { kind: 'near' };
  const url = parsed(/^[a-z][a-z0-9+.-]*:\/\//i.test(written) ? written : `tcp://${written}`);
  if (url?.protocol === 'ssh:') return sshPlace(url);
  const host = url === null ? '' : hostIn(url);
  if (url === null || !['tcp:', 'http:', 'https:'].includes(url.protocol) || !isHost(host))
    throw new Error('DOCKER_HOST must be unix:///path, ssh://[user@]host[:port] or tcp://host:port.');
  return isLoopback(host) ? { kind: 'near' } : tlsPlace(host, url.port, environment);
}

function parsed(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

const hostIn = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, '$1');

/** Returns whether it is a host name or an address, and not an option of a program. */
const isHost = (text: string): boolean => /^[a-z0-9:][a-z0-9.:_-]{0,252}$/i.test(text);

function isLoopback(host: string): boolean {
  return ipaddr.isValid(host) ? ipaddr.process(host).range() === 'loopback' : /^(.*\.)?localhost$/i.test(host);
}

function sshPlace(url: URL): EnginePlace {
  const [host, user] = [hostIn(url), url.username];
  const isUser = /^[a-z0-9_][a-z0-9_.-]{0,63}$/i.test(user);
  if (url.password !== '') throw new Error('DOCKER_HOST must not contain a password: ssh logs in with a key.');
  if (!isHost(host) || (user !== '' && !isUser) || !/^[\w./-]*$/.test(url.pathname))
    throw new Error('DOCKER_HOST must be ssh://[user@]host[:port], or with the path of the socket on that machine.');
  const socket = url.pathname.length > 1 ? url.pathname : SOCKET_DEFAULT;
  return { kind: 'ssh', user: user === '' ? null : user, host, port: url.port === '' ? null : Number(url.port), socket };
}

function tlsPlace(host: string, port: string, environment: Environment): EnginePlace {
  const { DOCKER_TLS_VERIFY: verify = '', DOCKER_CERT_PATH: certificates = '' } = environment;
  if (verify === '' || certificates === '')
    throw new Error(
      `DOCKER_HOST leads to another machine, ${host}, and without TLS anybody on the network could take that machine over: ` +
        'give DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, the folder of ca.pem, cert.pem and key.pem, or reach it by ssh://.',
    );
  return { kind: 'tls', host, port: port === '' ? TLS_PORT_DEFAULT : Number(port), certificates };
}
