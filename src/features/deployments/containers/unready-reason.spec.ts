import type { ReadinessCheck } from '../../../agent-protocol/readiness.ts';
import type { Listener } from './listeners.ts';
import { unreadyReason, type UnreadyContainer } from './unready-reason.ts';

const address = { host: '172.18.0.2', port: 8_080 };
const at = (host: string, port: number): Listener => ({ host, port, isLoopback: host.startsWith('127.') });
const open = [at('0.0.0.0', 8_080)];
const refused: ReadinessCheck = { kind: 'refused' };
const reason = (check: ReadinessCheck, listeners: UnreadyContainer['listeners'] = null, more: Partial<UnreadyContainer> = {}) =>
  unreadyReason({ health: { path: '/healthz' }, address, check, listeners, ...more });

describe('the reason why a container is not ready', () => {
  it('is the status that it answered with, and what to do about that', () => {
    expect(reason({ kind: 'status', status: 404 }, open)).toBe(
      'GET /healthz on port 8080 answered 404, and 2xx is needed: add such a route, or set health_path.',
    );
    const advice = (status: number) => reason({ kind: 'status', status }, open).replace(/^.*is needed: /, '');
    expect(advice(302)).toMatch(/redirects are not followed/);
    expect(advice(403)).toMatch(/without a credential/);
    expect(advice(503)).toMatch(/once the program is ready.*start_timeout/);
    expect(advice(400)).toBe('let it answer so, or set health_path.');
  });

  it('is that the program listens on the loopback address alone', () => {
    expect(reason(refused, [at('127.0.0.1', 8_080)])).toBe(
      'GET /healthz on port 8080: connection refused; the program listens on 127.0.0.1:8080 alone, which nobody outside of the container ' +
        'reaches. Let it listen on 0.0.0.0.',
    );
  });

  it('is that the program listens on another port', () => {
    expect(reason(refused, [at('0.0.0.0', 3_000)])).toBe(
      'GET /healthz on port 8080: connection refused; the program listens on 0.0.0.0:3000. Let it listen on the port in PORT, or with port ' +
        'set to 3000 (of the agent, or in mooring.json).',
    );
    expect(reason(refused, [at('127.0.0.1', 3_000)])).toBe(
      'GET /healthz on port 8080: connection refused; the program listens on 127.0.0.1:3000. Let it listen on 0.0.0.0, and on the port in ' +
        'PORT, or with port set to 3000 (of the agent, or in mooring.json).',
    );
  });

  it('names every port among which to choose, but proposes none that only the container reaches', () => {
    const both = reason(refused, [at('0.0.0.0', 3_000), at('0.0.0.0', 9_090)]);
    expect(both).toContain(
      'listens on 0.0.0.0:3000 and 0.0.0.0:9090. Let it listen on the port in PORT, or with port set to the one that it',
    );
    expect(reason(refused, [at('0.0.0.0', 3_000), at('127.0.0.1', 9_229)])).toContain('with port set to 3000');
  });

  it('is that nothing listens', () => {
    expect(reason(refused, [])).toBe(
      'GET /healthz on port 8080: connection refused; no program in the container listens on a port. Let the program listen on 0.0.0.0 and ' +
        'the port in PORT; if it needs longer to start, set start_timeout.',
    );
  });

  it('is that the program does not answer, or answers with something else than HTTP', () => {
    expect(reason({ kind: 'silent', isConnected: true }, open)).toBe(
      'GET /healthz on port 8080: no answer within 2 s. Let the program answer it without waiting for other work, or set health_path; if it ' +
        'needs longer to start, set start_timeout.',
    );
    for (const kind of ['closed', 'no_http'] as const) expect(reason({ kind }, open)).toContain('or set health_path to "tcp"');
    expect(reason({ kind: 'closed' }, open, { health: { tcp: true } })).toBe(
      'a connection to port 8080: the connection was closed without an answer. Let the program keep the connections open that it accepts.',
    );
  });

  it('is the way to the container if the program listens and no connection comes about', () => {
    for (const check of [refused, { kind: 'unreachable' as const }, { kind: 'silent' as const, isConnected: false }])
      expect(reason(check, open)).toMatch(/172\.18\.0\.2, is not reachable from the service\. The operator .*MOORING_AGENT_ADDRESSES/);
  });

  it('is not the program’s silence where the engine accepts connections in its place', () => {
    for (const check of [{ kind: 'closed' as const }, { kind: 'silent' as const, isConnected: true }])
      expect(reason(check, [at('127.0.0.1', 8_080)])).toContain('listens on 127.0.0.1:8080 alone');
  });

  it('names the port of the program, not the one under which the engine publishes it', () => {
    const published = { host: '127.0.0.1', port: 32_768, programPort: 8_080 };
    expect(reason({ kind: 'status', status: 404 }, null, { address: published })).toContain('GET /healthz on port 8080 answered');
  });

  it('is told without what listens if that can’t be seen', () => {
    expect(reason(refused)).toBe(
      'GET /healthz on port 8080: connection refused. Let the program listen on the port in PORT; if it needs longer to start, set ' +
        'start_timeout.',
    );
  });

  it('is that it was ready too late', () => {
    expect(reason({ kind: 'ready' }, open)).toBe('GET /healthz on port 8080 succeeded only after that. Set a longer start_timeout.');
  });

  it('shows no query of the path, which may contain a secret', () => {
    expect(reason({ kind: 'status', status: 500 }, null, { health: { path: '/up?key=s3cret' } })).toMatch(
      /^GET \/up on port 8080 answered/,
    );
  });
});
