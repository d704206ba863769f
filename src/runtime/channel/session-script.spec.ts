import { execFileSync } from 'node:child_process';
import fc from 'fast-check';

import type { ExecRequest } from '../runtime.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { sessionScript } from './session-script.ts';

const request = (argv: string[], other: Partial<ExecRequest> = {}): ExecRequest => ({ argv, timeoutMs: 1, outputLimitBytes: 1, ...other });
const run = (script: string) => execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' });

describe('the script of a command in a session', () => {
  it('runs a text in the shell itself, and any other command with unchanged arguments', () => {
    expect(sessionScript(request(['/bin/sh', '-c', 'cd /x']), null)).toBe(`command eval 'cd /x'`);
    expect(sessionScript(request(['/bin/sh', '-c', 'a', 'b']), null)).toBe(
      String.raw`command eval ''\''/bin/sh'\'' '\''-c'\'' '\''a'\'' '\''b'\'''`,
    );
  });

  it('passes every program its unchanged arguments, whatever they contain', () => {
    const word = fc.string({ unit: fc.constantFrom('a', ' ', "'", '"', '\\', '$', '`', '\n', '*', '!', '#', 'ü'), maxLength: 12 });
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 5 }), word, (words, value) => {
        const script = sessionScript(request(['printf', '[%s]', ...words]), null);
        expect(run(script)).toBe(words.map((each) => `[${each}]`).join(''));
        const own = sessionScript(request(['/bin/sh', '-c', 'printf %s "$OWN"'], { environment: { OWN: value } }), null);
        expect(run(own)).toBe(value);
      }),
      { numRuns: 30 },
    );
  });

  it('changes the folder first, and refuses arguments that no shell can pass', () => {
    expect(sessionScript(request(['/bin/sh', '-c', 'x']), "/it's")).toBe(
      String.raw`CDPATH= command cd -- '/it'\''s' || return 126` + `\ncommand eval 'x'`,
    );
    expect(() => sessionScript(request(['x'], { environment: { 'A-B': '' } }), null)).toThrow(RuntimeRefused);
    expect(() => sessionScript(request(['x\0y']), null)).toThrow(RuntimeRefused);
  });
});
