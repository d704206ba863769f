import fc from 'fast-check';
import { storedJson } from '../../../eventsourcing/event-store/stored-json.ts';
import { readLogLine } from './log-line.ts';

const line = (text: string, stream: 'stdout' | 'stderr' = 'stdout') => ({
  stream,
  text,
  cursor: { generation: 1, time: '2026-01-02T03:04:05.678901234Z', count: 1 },
});

/** The names that every object seems to have. A line with each of them for its level is tried in every run, as chance may leave out those that did harm. */
const inheritedNames = Object.getOwnPropertyNames(Object.prototype);
const anyLevel = fc.oneof(fc.constantFrom(...inheritedNames, 'WARN', 'fatal'), fc.jsonValue({ stringUnit: 'binary' }));
/** Generates lines that look structured, with any members. */
const jsonLine = fc
  .record({ level: anyLevel, message: fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue()), msg: fc.string() }, { requiredKeys: [] })
  .map((members) => JSON.stringify(members));

/** Generates texts as the runtimes make them of bytes that need not be UTF-8. */
const anyBytes = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('utf8'));

describe('a line of output', () => {
  it.each([
    ['{"level":"warn","message":"low on fuel"}', 'warning', 'low on fuel'],
    ['{"level":50,"msg":"broken"}', 'error', 'broken'],
    ['{"message":"no level"}', 'info', '{"message":"no level"}'],
    ['{not json', 'info', '{not json'],
    ['Error: on stdout', 'info', 'Error: on stdout'],
    ['{"level":"error","msg":""}', 'error', '{"level":"error","msg":""}'],
  ])('%s on stdout is %s', (text, level, message) => {
    expect(readLogLine(line(text))).toEqual({ t: '2026-01-02T03:04:05.678Z', l: level, m: message });
  });

  it.each([
    ['{"level":"INFO","msg":"hello","pid":1}', 'info', 'hello', { pid: 1 }],
    [
      '{"level":50,"reqId":"r-1","err":{"message":"x is undefined","stack":"at y"},"msg":"failed"}',
      'error',
      'failed',
      { reqId: 'r-1', err: { message: 'x is undefined', stack: 'at y' } },
    ],
    ['{"level":"error","message":"first","msg":"second"}', 'error', 'first', { msg: 'second' }],
    ['{"severity":"ALERT","message":"gcp"}', 'error', 'gcp', undefined],
    ['{"levelname":"CRITICAL","event":"structlog","key":1}', 'error', 'structlog', { key: 1 }],
    ['{"log.level":"warn","message":"ecs","ecs":{"version":"1"}}', 'warning', 'ecs', { ecs: { version: '1' } }],
    ['{"log":{"level":"error","logger":"l"},"message":"nested"}', 'error', 'nested', { log: { logger: 'l' } }],
    ['{"level":"ERROR","fields":{"message":"tracing","code":7},"target":"t"}', 'error', 'tracing', { fields: { code: 7 }, target: 't' }],
    [
      '{"text":"x","record":{"level":{"name":"WARNING","no":30},"message":"loguru"}}',
      'warning',
      'loguru',
      { text: 'x', record: { level: { no: 30 } } },
    ],
    ['{"level":"constructor","message":"x"}', 'info', 'x', { level: 'constructor' }],
    ['{"level":"__proto__","message":"x"}', 'info', 'x', { level: '__proto__' }],
  ])('%s keeps what it says beside its message', (text, level, message, fields) => {
    expect(readLogLine(line(text))).toEqual({ t: '2026-01-02T03:04:05.678Z', l: level, m: message, ...(fields && { f: fields }) });
  });

  it.each(['9007199254740993', '1e999', `${'['.repeat(40)}${']'.repeat(40)}`])(
    'stays as it was printed if %s would not be given back exactly',
    (value) => {
      const text = `{"level":"warn","msg":"x","id":${value}}`;
      expect(readLogLine(line(text))).toEqual({ t: '2026-01-02T03:04:05.678Z', l: 'warning', m: text });
    },
  );

  it.each([
    ['crit', 'error'],
    ['alert', 'error'],
    ['emerg', 'error'],
    ['dpanic', 'error'],
    ['SEVERE', 'error'],
    ['50', 'error'],
    ['40', 'warning'],
    ['WARN+1', 'warning'],
    ['notice', 'info'],
    ['FINEST', 'info'],
    ['Information', 'info'],
    ['loud', 'error'],
  ])('the level %s is %s', (name, level) => {
    expect(readLogLine(line(JSON.stringify({ level: name, message: 'error: connection lost' }), 'stderr')).l).toBe(level);
  });

  it.each([
    ['TypeError: x is not a function', 'error'],
    ['[2026-11-27 10:00:00 +0000] [7] [CRITICAL] WORKER TIMEOUT (pid:9)', 'error'],
    ['2026-11-27T10:00:00Z INFO handled 1 error', 'info'],
    ['\u001b[32mINFO\u001b[0m:     Application startup complete, no error', 'info'],
    ['DEBUG:root:no exception', 'info'],
    ['warn: a fatal attraction', 'warning'],
    ['E0312 12:00:00.000000 1 file.go:12] it broke', 'error'],
    ['I0312 12:00:00.000000 1 file.go:12] 0 errors, 1 error', 'info'],
    ['Fine words, but an error', 'error'],
    ['npm ERR! missing script', 'error'],
    ['DeprecationWarning: old', 'info'],
    ['warning: deprecated', 'warning'],
    ['just progress', 'info'],
  ])('%s on stderr is %s', (text, level) => {
    expect(readLogLine(line(text, 'stderr')).l).toBe(level);
  });

  it('is read, whatever it contains', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ unit: 'binary' }), fc.json(), jsonLine, anyBytes),
        fc.constantFrom('stdout' as const, 'stderr' as const),
        (text, stream) => {
          const read = readLogLine(line(text, stream));
          expect(['info', 'warning', 'error']).toContain(read.l);
          expect(typeof read.m).toBe('string');
          // A store accepts the line.
          expect(() => storedJson(read)).not.toThrow();
        },
      ),
      { examples: inheritedNames.map((level): [string, 'stdout'] => [JSON.stringify({ level, message: 'x' }), 'stdout']) },
    );
  });
});
