import { Readable } from 'node:stream';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { hostileImage, numbers } from '../../../../test/support/hostile-image.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerView } from '../../container.ts';

const SECRET = 'canary-7d20';
const ROUNDS = 400;
const soon = () => timeoutSignal(30_000);

/** Perl that finds our programs: those whose command begins with the supervisor's path. A worker has the words of what it was forked from. */
const ours = String.raw`
  sub ours { my @found; opendir(my $proc, "/proc") or die;
    for my $pid (grep { /^\d+$/ } readdir $proc) {
      open my $file, "<", "/proc/$pid/cmdline" or next; my $words = <$file> // "";
      push @found, $pid if $words =~ m{^/\.mooring/supervisor\0};
    } return @found }
`;

/** Perl that tries to read, trace and take over each of them, and prints what worked. */
const reach = String.raw`
  ${ours}
  sub worked { print "WORKED @_\n" }
  my @pids = ours(); print "tried ", scalar(@pids), "\n";
  for my $pid (@pids) {
    for my $name (qw(environ mem maps smaps auxv pagemap syscall stack io)) { open(my $file, "<", "/proc/$pid/$name") && defined(sysread $file, my $got, 1) && worked($pid, $name) }
    for my $name (qw(exe cwd root ns/net ns/mnt)) { defined(readlink "/proc/$pid/$name") && worked($pid, $name) }
    if (opendir(my $folder, "/proc/$pid/map_files")) { worked($pid, "map_files") if grep { !/^\.+$/ } readdir $folder }
    for my $fd (0 .. 20) {
      defined(readlink "/proc/$pid/fd/$fd") && worked($pid, "fd/$fd");
      open(my $out, ">", "/proc/$pid/fd/$fd") && worked($pid, "write fd/$fd");
    }
    open(my $mem, "+<", "/proc/$pid/mem") && worked($pid, "write mem");
    for my $request (16, 0x4206) { syscall(${numbers.ptrace}, $request, $pid + 0, 0, 0) == 0 && worked($pid, "ptrace $request") }
    my $buffer = "x" x 16; my $vector = pack("QQ", unpack("Q", pack("p", $buffer)), 16); my $remote = pack("QQ", 0x200000, 16);
    syscall(${numbers.processVmReadv}, $pid + 0, $vector, 1, $remote, 1, 0) > 0 && worked($pid, "process_vm_readv");
    my $pidfd = syscall(${numbers.pidfdOpen}, $pid + 0, 0);
    for my $fd (0 .. 5) { $pidfd >= 0 && syscall(${numbers.pidfdGetfd}, $pidfd, $fd, 0) >= 0 && worked($pid, "pidfd_getfd $fd") }
  }
  for my $name ("/.mooring/supervisor", "/.mooring/busybox", "/.mooring/new") { open(my $file, ">>", $name) && worked("write", $name); }
  rename("/.mooring/supervisor", "/.mooring/other") && worked("rename"); unlink("/.mooring/supervisor") && worked("unlink");
  symlink("/bin/busybox", "/.mooring/link") && worked("symlink"); rename("/.mooring", "/other") && worked("rename of the folder");
`;

/** Perl that asks for the variables as our own program does. The length and the words of what comes are printed. */
const ask = String.raw`
  sub ask { socket(my $to, 1, 1, 0) or die; connect($to, pack("S", 1) . "\0mooring-supervisor") or return "refused"; local $/; return <$to> // "nothing" }
`;

describe.each([
  ['root', null],
  ['a user without rights', '10001:10001'],
])('an agent that attacks its supervisor as %s', (_who, user) => {
  let bed: DockerFixture;
  let image: string;
  let view: ContainerView;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    image = await hostileImage(bed);
    view = await bed.running({
      image,
      user,
      environment: { SECRET },
      command: ['/bin/sh', '-c', 'trap "" TERM HUP USR1 USR2 INT; while :; do sleep 1; done'],
    });
  });
  afterAll(() => bed?.close());

  const perl = async (script: string, timeoutMs = 60_000, at = view) => {
    const { stdout, stderr } = await bed.runtime.exec(at.handle, { argv: ['perl', '-e', script], timeoutMs, outputLimitBytes: 65_536 });
    return stdout.toString() + stderr.toString();
  };
  const isWell = async (at = view) => {
    expect(await bed.output(at, 'echo "$SECRET"')).toBe(`${SECRET}\n`);
    expect(await bed.state(at)).toMatchObject({ state: 'running' });
  };

  it('reads, traces and takes over neither the first process nor what is attached nor what looks after commands, and replaces no program', async () => {
    const before = await bed.runtime.exec(view.handle, {
      argv: ['/bin/busybox', 'md5sum', '/.mooring/busybox'],
      timeoutMs: 10_000,
      outputLimitBytes: 100,
    });
    const found = await perl(reach);
    // The first process, what is attached, and the one that looks after this command.
    expect(found).toMatch(/^tried [3-9]\n/);
    expect(found.replace(/^tried \d\n/, '')).toBe('');
    expect(before.exitCode).toBe(0);
    await isWell();
  });

  it('finds the variables at the supervisor’s socket only as its own user, and can’t listen there in its place', async () => {
    const squat = String.raw`socket(my $own, 1, 1, 0) or die; print bind($own, pack("S", 1) . "\0mooring-supervisor") ? "SQUATTED" : "taken"`;
    expect(await perl(squat)).toBe('taken');
    expect(await perl(`${ask} print ask() =~ /SECRET=${SECRET}/ ? "own" : "none"`)).toBe('own');
    if (user !== null) return;
    expect(await perl(String.raw`${ask} $( = $) = "10002 10002"; $< = $> = 10002; print ask() eq "\0\0\0\0" ? "closed" : "OPEN"`)).toBe(
      'closed',
    );
  });

  it('an agent that holds the socket open can’t keep later commands from their variables, and a command without them is not run', async () => {
    const own = await bed.running({ image, user, environment: { SECRET } });
    const hold = String.raw`
      $SIG{PIPE} = "IGNORE"; my @held;
      for (1 .. 100) { socket(my $to, 1, 1, 0) or die; fcntl($to, 4, 2048); connect($to, pack("S", 1) . "\0mooring-supervisor"); push @held, $to }
      $| = 1; print "held\n"; sleep 300;`;
    const over = new AbortController();
    let begin = () => {};
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const request = { argv: ['perl', '-e', hold], timeoutMs: 60_000, outputLimitBytes: 100, signal: over.signal, onOutput: () => begin() };
    const holding = bed.runtime.exec(own.handle, request).catch((error: unknown) => error);
    await begun;
    const runtime = bed.another();
    const seen = await runtime.exec(own.handle, { argv: ['/bin/sh', '-c', 'echo "$SECRET"'], timeoutMs: 10_000, outputLimitBytes: 100 });
    expect(seen.stdout.toString()).toBe(`${SECRET}\n`);
    over.abort(new Error('enough'));
    await holding;
    await runtime.close();
    await bed.runtime.remove(own.handle);
  });

  it('ends or stops nothing but its own commands with any signal', async () => {
    const kill = String.raw`for my $round (1 .. ${ROUNDS}) { kill $_, 1 for qw(KILL STOP CONT CHLD WINCH URG TERM HUP INT USR1 USR2) } print "done"`;
    expect(await perl(kill)).toBe('done');
    await isWell();
    const spare = String.raw`${ours} my $self = getppid; kill "KILL", grep { $_ != 1 } ours(); sleep 60`;
    for (let round = 0; round < 20; round += 1) {
      const ended = await perl(spare).catch((error: Error) => error.name);
      expect(['RuntimeUnavailable', '']).toContain(ended);
    }
    await isWell();
    await until('only the first process, what is attached and one command are left', async () =>
      (await perl(`${ours} print scalar(ours())`)) === '3' ? true : undefined,
    );
  });

  it('that stops what is attached, or what looks after a command, holds up its own calls only for their time', async () => {
    const own = await bed.running({ image, user, environment: { SECRET } });
    const stop = String.raw`${ours} kill "STOP", grep { $_ != 1 } ours(); sleep 300`;
    const began = performance.now();
    const commands = [1, 2].map(() => bed.runtime.exec(own.handle, { argv: ['perl', '-e', stop], timeoutMs: 500, outputLimitBytes: 100 }));
    expect(await Promise.all(commands)).toMatchObject([{ timedOut: true }, { timedOut: true }]);
    await expect(bed.runtime.files.read(own.handle, '/etc/passwd', { maxBytes: null, signal: timeoutSignal(1_000) })).rejects.toMatchObject(
      { name: 'TimeoutError' },
    );
    await expect(bed.runtime.files.list(own.handle, '.', timeoutSignal(1_000))).rejects.toMatchObject({ name: 'TimeoutError' });
    await until('the supervisor is attached anew', async () => {
      const request = { argv: ['/bin/sh', '-c', 'echo "$SECRET"'], timeoutMs: 1_000, outputLimitBytes: 100 };
      const { stdout } = await bed.runtime.exec(own.handle, request);
      return stdout.toString() === `${SECRET}\n` ? true : undefined;
    });
    expect(performance.now() - began).toBeLessThan(90_000);
    await isWell();
    await bed.runtime.remove(own.handle);
  });

  it('inherits no descriptor of ours, in its own process, a command or a terminal, however many are under way', async () => {
    // A shell with one command would become it.
    const list = 'ls /proc/$$/fd; :';
    const own = await bed.running({ image, user, pids: 256, command: ['/bin/sh', '-c', `${list}; sleep 300`] });
    await until('the agent tells', async () => ((await bed.runtime.lastLines(own.handle, 3)).join() === '0,1,2' ? true : undefined));
    const over = new AbortController();
    const busy = Array.from({ length: 8 }, () =>
      bed.runtime
        .exec(own.handle, { argv: ['sleep', '300'], timeoutMs: 60_000, outputLimitBytes: 10, signal: over.signal })
        .catch(() => undefined),
    );
    expect(await Promise.all(Array.from({ length: 20 }, () => bed.output(own, list)))).toEqual(
      Array.from({ length: 20 }, () => '0\n1\n2\n'),
    );
    const screen = await bed.runtime.terminal(own.handle, { cols: 80, rows: 24, signal: soon() });
    screen.stream.end('ls -1 /proc/$$/fd; exit\n');
    let shown = '';
    for await (const bytes of screen.stream) shown += String(bytes);
    // The shell of a terminal keeps the terminal at a high number, by which it knows its jobs.
    expect(shown.replaceAll('\r', '')).toMatch(/\n0\n1\n(10\n)?2\n(?!\d)/);
    over.abort(new Error('enough'));
    await Promise.all(busy);
    await bed.runtime.remove(own.handle);
  });

  it('reaches nothing outside of its volume by links that it swaps while files are listed, read, written, moved and removed', async () => {
    const outside = '/tmp/outside';
    await bed.output(
      view,
      `mkdir -p ${outside}/sub /data/flip/sub; echo kept > ${outside}/kept; echo own > /data/flip/own; ln -s ${outside} /data/flop`,
    );
    const tree = () => bed.output(view, `ls -laR ${outside} | grep -v " \\.\\.$"; cat ${outside}/kept`);
    const before = await tree();
    const over = new AbortController();
    const swap = `my ($a, $b) = ("/data/flip", "/data/flop"); syscall(${numbers.renameat2}, -100, $a, -100, $b, 2) while 1`;
    const request = { argv: ['perl', '-e', swap], timeoutMs: 300_000, outputLimitBytes: 100, signal: over.signal };
    const swapping = bed.runtime.exec(view.handle, request).catch((error: unknown) => error);
    const { files } = bed.runtime;
    const write = { maxBytes: 1_000, reserve: null, onTaken: 'replace' as const, parents: true };
    let listed = 0;
    const told = new Map<string, number>();
    const attempt = async (name: string, call: () => Promise<unknown>) => {
      const word = await call().then(
        () => 'done',
        (error: Error & { reason?: string }) => error.reason ?? error.message,
      );
      told.set(`${name} ${word}`, (told.get(`${name} ${word}`) ?? 0) + 1);
    };
    for (let round = 0; round < ROUNDS; round += 1) {
      await Promise.all([
        attempt('list', async () => {
          const { path, entries } = await files.list(view.handle, 'flip', soon());
          listed += 1;
          expect(path).toMatch(/^\/data\/fl[io]p$/);
          expect(entries.map(({ name }) => name)).not.toContain('kept');
        }),
        attempt('read', async () => {
          const { content, kind } = await files.read(view.handle, 'flip', { maxBytes: null, signal: soon() });
          for await (const _ of content);
          expect(kind).toBe('directory');
        }),
        attempt('write', () => files.write(view.handle, 'flip/written', Readable.from([Buffer.from('x')]), { ...write, signal: soon() })),
        attempt('mkdir', () => files.makeDirectory(view.handle, `flip/sub/${round}/deep`, { parents: true, signal: soon() })),
        attempt('move out', () => files.move(view.handle, 'flip/kept', 'taken', soon(), 'replace')),
        attempt('move in', () => files.move(view.handle, 'flip/own', 'flip/moved', soon(), 'replace')),
        attempt('remove', () => files.remove(view.handle, 'flip/kept', soon())),
        attempt('remove all', () => files.remove(view.handle, 'flip/sub', soon())),
      ]);
    }
    over.abort(new Error('enough'));
    await swapping;
    expect(await tree()).toBe(before);
    const words = [...told.keys()].map((key) => key.replace(/^.* /, ''));
    const known = [
      'done',
      'not_found',
      'outside_volume',
      'not_a_directory',
      'exists',
      'not_permitted',
      'invalid_path',
      'is_a_directory',
      'not_a_file',
    ];
    expect(words.filter((word) => !known.includes(word))).toEqual([]);
    // Both sides of the swap were seen.
    expect(listed).toBeGreaterThan(0);
    expect(told.get('list outside_volume')).toBeGreaterThan(0);
  });
});
