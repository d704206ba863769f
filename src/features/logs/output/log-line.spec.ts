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
    ['{"level":"INFO","msg":"hello","pid":1}', 'info', 'hello'],
    ['{"message":"no level"}', 'info', '{"message":"no level"}'],
    ['{not json', 'info', '{not json'],
    ['Error: on stdout', 'info', 'Error: on stdout'],
    ['{"level":"constructor","message":"x"}', 'info', 'x'],
    ['{"level":"__proto__","message":"x"}', 'info', 'x'],
    ['{"level":"valueOf","message":"x"}', 'info', 'x'],
  ])('%s on stdout is %s', (text, level, message) => {
    expect(readLogLine(line(text))).toEqual({ t: '2026-01-02T03:04:05.678Z', l: level, m: message });
  });

  it.each([
    ['TypeError: x is not a function', 'error'],
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
