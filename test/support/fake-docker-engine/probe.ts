import type { ProgramAnswer, ProgramRequest, ProgramRun, FakeProgram } from './program.ts';

/** The probe of the runtime's contract, as far as it needs no processes. */
export const fakeProbe: FakeProgram = {
  listens: true,

  start(run) {
    const { environment } = run;
    if (environment.EXIT === undefined) {
      append(run, 'starts', 'x');
      return;
    }
    run.print('stdout', written(environment.PRINT ?? ''));
    run.print('stderr', written(environment.PRINT_ERROR ?? ''));
    // A real program also runs for a moment before it ends.
    setImmediate(() => run.exit(Number(environment.EXIT)));
  },

  answer(run, { method, path, body }) {
    const [, route = '', word = ''] = path.split('/');
    return routes[route]?.(run, word, { method, path, body }) ?? { status: 404, body: 'there is no such route' };
  },

  terminate(run) {
    const { ON_SIGTERM } = run.environment;
    if (ON_SIGTERM === 'ignore') return null;
    if (ON_SIGTERM !== 'finish') return 0;
    run.volume.set('sigterm', Buffer.from('seen'));
    return 7;
  },
};

const routes: Record<string, (run: ProgramRun, word: string, request: ProgramRequest) => ProgramAnswer> = {
  healthz: () => ok('ok'),
  count(run) {
    const count = Number(run.memory.get('count') ?? 0) + 1;
    run.memory.set('count', count);
    return ok(String(count));
  },
  starts: (run) => ok(String(run.volume.get('starts')?.length ?? 0)),
  environment: (run) =>
    ok(
      JSON.stringify({
        environment: run.environment,
        listening: Number(run.environment.PORT),
        words: run.command.slice(2),
      }),
    ),
  print(run, word, { body }) {
    run.print(word === 'stderr' ? 'stderr' : 'stdout', body);
    return ok('');
  },
  exit(run) {
    setImmediate(() => run.exit(4));
    return ok('');
  },
  kill(run) {
    setImmediate(() => run.exit(137));
    return ok('');
  },
  child(run) {
    append(run, 'beats', 'x');
    return ok('');
  },
  file(run, name, { method, body }) {
    if (method === 'PUT') run.volume.set(name, body);
    const content = run.volume.get(name);
    return content === undefined ? { status: 500, body: `no file ${name}` } : { status: 200, body: content };
  },
};

const ok = (body: string): ProgramAnswer => ({ status: 200, body });

function append(run: ProgramRun, name: string, text: string): void {
  run.volume.set(name, Buffer.concat([run.volume.get(name) ?? Buffer.alloc(0), Buffer.from(text)]));
}

/** Decodes base64 parts separated by commas, each optionally followed by `*` and a number of repetitions. */
function written(parts: string): Buffer {
  return Buffer.concat(
    parts.split(',').map((part) => {
      const [text = '', times = '1'] = part.split('*');
      return Buffer.from(Buffer.from(text, 'base64').toString('latin1').repeat(Number(times)), 'latin1');
    }),
  );
}
