import { execFileSync } from 'node:child_process';
import fc from 'fast-check';

import type { ExecRequest } from '../runtime.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { sessionScript } from './session-script.ts';

const request = (argv: string[], other: Partial<ExecRequest> = {}): ExecRequest => ({ argv, timeoutMs: 1, outputLimitBytes: 1, ...other });
const run = (script: string) => execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' });

describe('the script of a command in a session', () => {
  it('runs a text as the shell’s own, and any other command with its words as they are', () => {
    expect(sessionScript(request(['/bin/sh', '-c', 'cd /x']), null)).toBe(`command eval 'cd /x'`);
    expect(sessionScript(request(['/bin/sh', '-c', 'a', 'b']), null)).toBe(
      String.raw`command eval ''\''/bin/sh'\'' '\''-c'\'' '\''a'\'' '\''b'\'''`,
    );
  });

  it('gives every program its words as they are, whatever stands in them', () => {
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

  it('changes the folder before, and refuses what no shell can have', () => {
    expect(sessionScript(request(['/bin/sh', '-c', 'x']), "/it's")).toBe(
      String.raw`CDPATH= command cd -- '/it'\''s' || return 126` + `\ncommand eval 'x'`,
    );
    expect(() => sessionScript(request(['x'], { environment: { 'A-B': '' } }), null)).toThrow(RuntimeRefused);
    expect(() => sessionScript(request(['x\0y']), null)).toThrow(RuntimeRefused);
  });
});
