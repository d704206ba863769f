import fc from 'fast-check';
import { enginePlace } from './docker-host.ts';

const place = (DOCKER_HOST?: string, other = {}) => enginePlace({ DOCKER_HOST, ...other });
const tls = { DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: '/certificates' };

describe('the place of the engine', () => {
  it('is near by a socket file, or by a port of the loopback address', () => {
    for (const host of [
      undefined,
      '',
      'unix:///var/run/docker.sock',
      'tcp://127.0.0.1:2375',
      '127.0.0.1:2375',
      'tcp://localhost:2375',
      'tcp://[::1]:2375',
    ])
      expect(place(host)).toEqual({ kind: 'near' });
  });

  it('is another machine by ssh, with the socket of the engine there', () => {
    const socket = '/var/run/docker.sock';
    expect(place('ssh://builder')).toEqual({ kind: 'ssh', user: null, host: 'builder', port: null, socket });
    expect(place('ssh://agent@10.0.0.7:2222')).toEqual({ kind: 'ssh', user: 'agent', host: '10.0.0.7', port: 2_222, socket });
    expect(place('ssh://a@b/run/user/1000/docker.sock')).toMatchObject({ socket: '/run/user/1000/docker.sock' });
  });

  it('is another machine by TCP with TLS alone', () => {
    expect(place('tcp://builder:2376', tls)).toEqual({ kind: 'tls', host: 'builder', port: 2_376, certificates: '/certificates' });
    for (const host of ['tcp://builder:2375', 'builder:2376', 'http://10.0.0.7:2375', 'tcp://0.0.0.0:2375', 'tcp://127.0.0.1.example:2375'])
      for (const some of [{}, { DOCKER_TLS_VERIFY: '1' }, { DOCKER_CERT_PATH: '/certificates' }])
        expect(() => place(host, some)).toThrow('anybody on the network could take that machine over');
  });

  it('is refused if it is malformed, or could be an option of ssh', () => {
    const hosts = [
      'ssh://',
      'ssh://-oProxyCommand=id',
      'ssh://-lroot@host',
      'ssh://a%20b@host',
      'ssh://user:word@host',
      'ssh://host/a;b',
      'ftp://host',
    ];
    for (const host of hosts) expect(() => place(host, tls)).toThrow('DOCKER_HOST must');
  });

  it('is read or refused with a sentence, whatever is given', () => {
    const text = fc.oneof(
      fc.string(),
      fc.tuple(fc.constantFrom('ssh://', 'tcp://', 'unix://', ''), fc.webAuthority({ withUserInfo: true })).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(text, (host) => {
        try {
          const found = place(host);
          if (found.kind === 'ssh') expect([found.host, found.user ?? 'x', found.socket].some((word) => word.startsWith('-'))).toBe(false);
        } catch (error) {
          expect((error as Error).message).toMatch(/^DOCKER_HOST /);
        }
      }),
    );
  });
});
