import { eventually, silent, type RuntimeFixture } from './runtime.fixture.contract.ts';
import type { Terminal, TerminalRequest } from '../../src/runtime/runtime.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { RuntimeRefused } from '../../src/runtime/runtime.errors.ts';

/** A shell as a user sits in front of it. */
class Sitting {
  shown = '';

  constructor(readonly terminal: Terminal) {
    terminal.stream.on('data', (bytes: Buffer) => (this.shown += bytes.toString()));
  }

  type(text: string): void {
    this.terminal.stream.write(text);
  }

  /** Types a line and waits for its output. The shell echoes the line, so the output must not be a part of it. */
  async run(line: string, output: string): Promise<void> {
    this.type(`${line}\r`);
    await eventually(async () => expect(this.shown).toContain(output));
  }
}

export function terminals(bed: RuntimeFixture): void {
  let view: ContainerView;
  const opened: AbortController[] = [];
  beforeAll(async () => {
    view = await bed.running();
  });
  afterAll(() => opened.forEach((caller) => caller.abort()));

  async function open(size: Partial<TerminalRequest> = {}, of = view): Promise<Sitting & { leave: () => void }> {
    const caller = new AbortController();
    opened.push(caller);
    const terminal = await bed.runtime.terminal(of.handle, { cols: 80, rows: 24, signal: caller.signal, ...size });
    return Object.assign(new Sitting(terminal), { leave: () => caller.abort() });
  }
  const size = `node -e "console.log('size' + process.stdout.getWindowSize().join('x'))"`;

  it('have a shell, whose exit code is reported', async () => {
    const sitting = await open();
    await sitting.run('echo $((6 * 7))$TERM', '42xterm-256color');
    sitting.type('exit 3\r');
    expect(await sitting.terminal.ended).toBe(3);
  });

  it('have the requested size, and can be resized', async () => {
    const sitting = await open({ cols: 132, rows: 43 });
    await sitting.run(size, 'size132x43');
    await sitting.terminal.resize(100, 30);
    await sitting.run(size, 'size100x30');
    sitting.leave();
    await sitting.terminal.ended;
  });

  it('send a signal to the program on Ctrl-C, and not to the shell', async () => {
    const sitting = await open();
    await sitting.run(`node -e "setInterval(() => 0, 1000); console.log('beg' + 'un')"`, 'begun');
    sitting.type('\u0003');
    await sitting.run('echo still $((1 + 1))', 'still 2');
    sitting.leave();
    await sitting.terminal.ended;
  });

  it('kill all jobs when the caller goes away, and when the shell ends', async () => {
    const beat = `node -e "process.on('SIGHUP', () => 0); setInterval(() => fs.appendFileSync(process.env.MOORING_VOLUME + '/beats', 'x'), 20)"`;
    for (const end of ['leave', 'exit']) {
      const alone = await bed.running();
      const sitting = await open({}, alone);
      const beats = () => bed.ask(alone, 'GET', '/file/beats').then(({ text }) => text);
      sitting.type(`${beat} &\r`);
      await eventually(async () => expect(await beats()).toMatch(/^xx/));
      if (end === 'leave') sitting.leave();
      else sitting.type('exit\r');
      await sitting.terminal.ended;
      await silent(bed, alone);
    }
  });

  it('whose only program has closed them last until the caller goes away, and then end with it', async () => {
    const alone = await bed.running();
    const sitting = await open({}, alone);
    const beats = () => bed.ask(alone, 'GET', '/file/beats').then(({ text }) => text);
    const beat = `trap '' HUP; exec sh -c 'while :; do printf x >> "$MOORING_VOLUME/beats"; sleep 0.02; done' <&- >&- 2>&-`;
    sitting.type(`${beat}\r`);
    await eventually(async () => expect(await beats()).toMatch(/^xx/));
    sitting.leave();
    await sitting.terminal.ended;
    await silent(bed, alone);
  });

  it('end with the container', async () => {
    const alone = await bed.running();
    const sitting = await open({}, alone);
    await sitting.run('echo $((6 * 7))', '42');
    await bed.runtime.stop(alone.handle, 1);
    await sitting.terminal.ended;
  });

  it('accept input that no program reads without blocking anything else', async () => {
    const sitting = await open();
    await sitting.run(`node -e "setInterval(() => 0, 1000); console.log('beg' + 'un')"`, 'begun');
    const { stream } = sitting.terminal;
    for (let written = 0; written < 64 && stream.write('x'.repeat(65_536)); written += 1);
    const other = await open();
    await other.run('echo $((6 * 7))', '42');
    for (const each of [sitting, other]) {
      each.leave();
      await each.terminal.ended;
    }
  });

  it('are refused if the container does not run', async () => {
    const still = await bed.created();
    await expect(open({}, still)).rejects.toThrow(RuntimeRefused);
  });
}
