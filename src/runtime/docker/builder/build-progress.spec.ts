import fc from 'fast-check';

import { BuildProgress, buildFailure } from './build-progress.ts';

const status = (value: unknown): string => `${JSON.stringify(value)}\n`;
const logs = (vertex: string, text: string): string =>
  status({ logs: [{ vertex, stream: 1, data: Buffer.from(text).toString('base64') }] });

function told(...pieces: (string | Buffer)[]) {
  const lines: string[] = [];
  const progress = new BuildProgress((line) => lines.push(line));
  for (const piece of pieces) progress.push(Buffer.from(piece));
  progress.end();
  return { lines, progress };
}

describe('the progress of a build', () => {
  const failed = [
    status({ vertexes: [{ digest: 'a', name: '[internal] load build definition from Dockerfile', started: 't' }] }),
    status({ vertexes: [{ digest: 'd', name: '[context node:22] OCI load from client', started: 't' }] }),
    status({ vertexes: [{ digest: 'b', name: '[2/3] RUN npm ci', started: 't' }] }),
    logs('b', 'npm error missing: le'),
    logs('b', 'ft-pad\n'),
    status({
      vertexes: [
        {
          digest: 'b',
          name: '[2/3] RUN npm ci',
          started: 't',
          completed: 't',
          error: 'process "/bin/sh -c npm ci" did not complete successfully: exit code: 1',
        },
      ],
    }),
    'error: failed to solve: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1\n',
  ];

  it('is reported as the steps of the Dockerfile and their output, line by line', () => {
    expect(told(...failed).lines).toEqual(['[2/3] RUN npm ci', 'npm error missing: left-pad']);
  });

  it('names the steps that came from the cache', () => {
    const { lines } = told(status({ vertexes: [{ digest: 'c', name: '[1/2] COPY a b', started: 't', completed: 't', cached: true }] }));
    expect(lines).toEqual(['Using cache: [1/2] COPY a b']);
  });

  it('ends with the step that failed, its exit code and its last line', () => {
    expect(buildFailure(told(...failed).progress)).toBe('[2/3] RUN npm ci failed with exit code 1: npm error missing: left-pad');
  });

  it('ends with BuildKit’s message if no step failed', () => {
    const { progress } = told('error: failed to solve: dockerfile parse error on line 3: unknown instruction: RUNN\n');
    expect(buildFailure(progress)).toBe('The build failed: dockerfile parse error on line 3: unknown instruction: RUNN');
  });

  it('reports in a sentence that a source was refused', () => {
    const { progress } = told('error: failed to solve: source "https://example.com/x" not allowed by policy: action DENY\n');
    expect(buildFailure(progress)).toMatch(/^The build takes "https:\/\/example\.com\/x", which is neither/);
  });

  it('reports in a sentence that a step may not have its own network', () => {
    const name = '[1/2] RUN --network=none true';
    const { progress } = told(
      status({ vertexes: [{ digest: 'b', name, started: 't' }] }),
      logs('b', "runc run failed: unable to start container process: can't get final child's PID from pipe: EOF\n"),
      status({ vertexes: [{ digest: 'b', name, completed: 't', error: 'process "true" did not complete successfully: exit code: 1' }] }),
    );
    expect(buildFailure(progress)).toMatch(/sets the network of a step/);
  });

  it('is the same however the bytes are cut', () => {
    const bytes = Buffer.from(failed.join('') + logs('b', 'Grüße\n'));
    const whole = told(bytes).lines;
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 20 }), (cuts) => {
        const at = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        expect(told(...at.slice(1).map((end, index) => bytes.subarray(at[index], end))).lines).toEqual(whole);
      }),
    );
  });

  it('accepts any bytes without a failure', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.string(),
            fc.json().map((text) => `${text}\n`),
            fc.object().map(status),
          ),
        ),
        (pieces) => {
          expect(() => told(...pieces, status({ vertexes: [null, 3], logs: { a: 1 } }))).not.toThrow();
        },
      ),
    );
  });

  it('omits a line without an end, and continues after it', () => {
    const endless = Buffer.alloc(5 * 1024 * 1024, 'x');
    const { lines } = told('{"', endless, '\n', logs('', 'after\n'));
    expect(lines).toEqual(['after']);
  });
});
