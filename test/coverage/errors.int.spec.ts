import { readFileSync } from 'node:fs';

import { problems } from '../../src/http/responses/problems.ts';
import { errorCodes } from '../../src/kernel/errors/problem-error.ts';

const page = readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| `(\w+)` +\| (\d+) +\| .+ \| .+ \|$/gm)].map(([, code, status]) => `${code} ${status}`);

describe('docs/reference/errors.md', () => {
  it('has one row for every code, with its status', () => {
    expect(rows.sort()).toEqual(errorCodes.map((code) => `${code} ${problems[code].status}`).sort());
  });
});
