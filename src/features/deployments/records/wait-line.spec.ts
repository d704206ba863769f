import { waitLine } from './wait-line.ts';

describe('a deployment that waits', () => {
  it.each([
    ['build', { running: 2, before: 0 }, 'Waits for a place to build: 2 of this account’s builds run, and it is the next of this account'],
    ['pull', { running: 0, before: 0 }, 'Waits for a place to pull: other pulls run, and it is the next of this account'],
    [
      'build',
      { running: 2, before: 3 },
      'Waits for a place to build: 2 of this account’s builds run, and 3 of this account wait before it',
    ],
  ] as const)('for a %s says so, with its position', (kind, wait, line) => {
    expect(waitLine(kind, wait)).toBe(line);
  });
});
