import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import type { Duplex } from 'node:stream';

import { normaliseBatch } from '../../src/desktop/actions/normalise-batch.ts';
import { DesktopDriver } from '../../src/desktop/driver/desktop-driver.ts';
import type { Frame, ScreenSize } from '../../src/desktop/rfb/frame.ts';
import type { ImageOptions } from '../../src/desktop/screen/encode-image.ts';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import type { RuntimeUnderTest } from '../contracts/runtime.fixture.contract.ts';
import type { ContainerRuntime } from '../../src/runtime/runtime.ts';
import type { ResolvedImage } from '../../src/runtime/image-source.ts';
import type { ContainerSpec, ContainerView } from '../../src/runtime/container.ts';
import { containerSpec } from '../support/container-spec.ts';
import { until } from '../support/until.ts';

const SOCKET = '/run/user/1000/vnc.sock';
/** The height of the bar at the bottom, which shows the time. */
const BAR = 32;
const TEXT = 'Größe café, zażółć, Ωμέγα, Привет, 你好, 🚀🧭';
const GREEN = [0, 128, 0, 255];

/** A page of one colour, served by the Perl that every Debian has. */
const SERVER = `use Socket; socket(S, PF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(0, inet_aton("127.0.0.1"))); listen(S, 9);
open(P, ">", "port.new"); print P (sockaddr_in(getsockname(S)))[0]; close(P); rename("port.new", "port");
while (accept(C, S)) { sysread(C, $_, 9999); my $body = "<title>page</title><body bgcolor=green>";
syswrite(C, "HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\nConnection: close\\r\\nContent-Length: " . length($body) . "\\r\\n\\r\\n$body"); close(C); }
`;

/** A desktop in a container, and somebody who operates it. */
export class TestDesktop {
  view: ContainerView;
  driver: DesktopDriver;

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly spec: ContainerSpec,
  ) {
    this.driver = this.newDriver();
  }

  async start(): Promise<void> {
    this.view ??= await this.runtime.create(this.spec);
    await this.runtime.start(this.view.handle, this.spec.environment);
    await this.driver.close();
    this.driver = this.newDriver();
    await until('the desktop', () => this.driver.checkAnswers(timeoutSignal(20_000)).catch(() => undefined), { everyMs: 10 });
  }

  dial(): Promise<Duplex> {
    return this.runtime.dial(this.view.handle, { unix: SOCKET }, timeoutSignal(20_000));
  }

  async run(...actions: object[]): Promise<void> {
    const batchFor = (size: ScreenSize) => {
      const normalised = normaliseBatch({ actions }, size);
      return normalised.ok ? Promise.resolve(normalised.batch) : Promise.reject(new Error(JSON.stringify(normalised.errors)));
    };
    const outcome = await this.driver.run({ batchFor, reserveImage: () => true }, timeoutSignal(60_000));
    if (!outcome.ok) throw new Error(JSON.stringify(outcome.results));
  }

  /** Runs a shell line in the container and returns its output. */
  async sh(line: string): Promise<string> {
    const request = { argv: ['/bin/sh', '-c', line], timeoutMs: 20_000, outputLimitBytes: 262_144 };
    const { stdout } = await this.runtime.exec(this.view.handle, request);
    return stdout.toString();
  }

  /** Returns the numbers of the processes of that name which belong to this desktop. */
  async processes(name: string): Promise<string[]> {
    const isOurs = `tr '\\0' '\\n' <$p/environ | grep -qx "DISPLAY=$DISPLAY"`;
    const found = await this.sh(
      `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = ${name} ] && ${isOurs} && echo \${p#/proc/}; done 2>/dev/null`,
    );
    return found.split('\n').filter(Boolean);
  }

  /** Has a terminal in front that answers; opens one by a key if there is none. */
  async terminal(): Promise<void> {
    if ((await this.processes('xterm')).length === 0) await this.run({ action: 'key', text: 'ctrl+alt+t' });
    const name = randomUUID();
    const answered = async () => {
      await this.run({ action: 'type', text: `touch ${name}\n` });
      return (await this.sh(`ls ${name} 2>&1`)) === `${name}\n` ? true : undefined;
    };
    await until('the terminal', answered, { everyMs: 250 });
  }

  async content(file: string): Promise<string> {
    return until(file, async () => (await this.sh(`cat ${file} 2>/dev/null`)) || undefined);
  }

  /** Returns what the screen shows, without the pointer. */
  async frame(): Promise<Frame> {
    let taken: Frame | null = null;
    const noting = (frame: Frame): ImageOptions => {
      taken = frame;
      return { format: 'png', quality: 1 };
    };
    await this.driver.picture(false, noting, timeoutSignal(20_000));
    return taken as unknown as Frame;
  }

  /** Returns the pixels above the bar. */
  async pixels(): Promise<Buffer> {
    const { pixels, width, height } = await this.frame();
    return pixels.subarray(0, width * (height - BAR) * 4);
  }

  /** Returns the options of the browser, and what the kernel says of its pages' processes. */
  async browser(): Promise<{ options: string[]; pages: string }> {
    const words = await this.sh(`cat /proc/$(readlink ~/.config/chromium/SingletonLock | sed 's/.*-//')/cmdline | tr '\\0' '\\n'`);
    const isPage = `tr '\\0' ' ' <$p/cmdline | grep -q '[c]hromium --type=renderer'`;
    const pages = await this.sh(`for p in /proc/[0-9]*; do ${isPage} && grep -E '^(NSpid|Seccomp):' $p/status; done 2>/dev/null`);
    return { options: words.split('\n'), pages };
  }

  async ended(): Promise<ContainerView> {
    return until('the end', async () => {
      const [view] = (await this.runtime.inspect(this.spec.agentId)).containers;
      return view?.state === 'exited' ? view : undefined;
    });
  }

  async close(): Promise<void> {
    await this.driver.close();
    if (this.view !== undefined) await this.runtime.remove(this.view.handle);
  }

  private newDriver(): DesktopDriver {
    // The tests look at frames, not at images of them.
    const encode = () => Promise.resolve({ format: 'png' as const, width: 1, height: 1, data: Buffer.alloc(0) });
    return new DesktopDriver({ dial: () => this.dial(), encode, reserve: () => Promise.resolve(() => undefined) });
  }
}

/** Returns the spec of a container that shows a desktop. */
export function desktopSpec({ image }: ResolvedImage, other: Partial<ContainerSpec> = {}): ContainerSpec {
  return containerSpec(image, {
    environment: { HOME: '/home/user', DISPLAY: ':1', XDG_RUNTIME_DIR: '/run/user/1000', DESKTOP_SIZE: '1024x768', TZ: 'Asia/Tokyo' },
    port: 5_900,
    volumePath: '/home/user',
    user: { group: 1_000 },
    memoryBytes: 2 * 1024 ** 3,
    pids: 1_024,
    tmpfs: [
      { path: '/tmp', exec: true },
      { path: '/run/user/1000', mode: 0o700 },
    ],
    shmBytes: 256 * 1024 ** 2,
    userNamespaces: true,
    ...other,
  });
}

/** Declares the tests of a computer's desktop that every runtime must pass. One that is held in a container has a user of its own, and a browser with a sandbox. */
export function desktopContract(name: string, make: () => Promise<RuntimeUnderTest>, isHeld: boolean): void {
  describe(`a desktop on the ${name} runtime`, () => {
    let under: RuntimeUnderTest;
    let image: ResolvedImage;
    let desktop: TestDesktop;

    beforeAll(async () => {
      under = await make();
      image = await under.runtime.ensureImage({ kind: 'computer' }, () => undefined, timeoutSignal(15 * 60_000));
      desktop = new TestDesktop(under.runtime, desktopSpec(image));
      await desktop.start();
    });
    afterAll(async () => {
      await desktop?.close();
      await under?.close();
    });

    it('is named, and pinned for its container', () => {
      expect(image).toEqual({
        image: expect.stringMatching(/[0-9a-f]{64}$/),
        name: expect.any(String),
        command: [expect.stringMatching(/\/desktop$/)],
      });
    });

    it('speaks RFB 3.8 at a socket that nobody but its user opens, at no port, and has the size that was asked for', async () => {
      const connection = await desktop.dial();
      const [greeting] = (await once(connection, 'data')) as [Buffer];
      connection.destroy();
      expect(greeting.toString('latin1')).toBe('RFB 003.008\n');
      expect(await desktop.sh('stat -c "%a %F" "$XDG_RUNTIME_DIR/vnc.sock" "$XDG_RUNTIME_DIR"')).toBe('600 socket\n700 directory\n');
      const [server] = await desktop.processes('Xtigervnc');
      expect(await desktop.sh(`tr '\\0' ' ' </proc/${server}/cmdline`)).toMatch(/ -rfbport -1 .* -nolisten tcp /);
      expect(await desktop.frame()).toMatchObject({ width: 1_024, height: 768 });
    });

    it('lets in no program without its key', async () => {
      const asked = await desktop.sh(
        'xrdb -query >/dev/null && echo one is in; XAUTHORITY=/dev/null xrdb -query >/dev/null 2>&1 || echo the other is not',
      );
      expect(asked).toBe('one is in\nthe other is not\n');
    });

    it('is operated by one ordinary user, who has a name', async () => {
      const user = isHeld ? 'user' : userInfo().username;
      expect(await desktop.sh('whoami; stat -c %U "$XDG_RUNTIME_DIR/vnc.sock"')).toBe(`${user}\n${user}\n`);
    });

    it('opens a terminal in its home by a key', async () => {
      await desktop.terminal();
      await desktop.run({ action: 'type', text: 'pwd > where.txt; date +%Z > zone.txt\n' });
      expect(await desktop.content('zone.txt')).toBe('JST\n');
      expect((await desktop.content('where.txt')).trim()).toBe((await desktop.sh('pwd -P')).trim());
    });

    it('takes text of any script in the terminal, exact, and keeps what is selected for the middle button', async () => {
      await desktop.terminal();
      await desktop.run({ action: 'type', text: 'clear; echo lighthouse\n' }, { action: 'wait', duration: 0.5 });
      await desktop.run({ action: 'double_click', coordinate: [60, 62] }, { action: 'type', text: "cat > note.txt <<'END'\n" });
      await desktop.run({ action: 'type', text: `${TEXT}\n` }, { action: 'type', text: 'END\ncat > word.txt\n' });
      expect(await desktop.content('note.txt')).toBe(`${TEXT}\n`);
      await desktop.run(
        { action: 'wait', duration: 0.5 },
        { action: 'middle_click' },
        { action: 'wait', duration: 0.5 },
        { action: 'key', text: 'Return ctrl+d' },
      );
      expect(await desktop.content('word.txt')).toBe('lighthouse\n');
    });

    it('keeps its windows, their programs and the connection while it is frozen', async () => {
      await desktop.terminal();
      await desktop.run({ action: 'key', text: 'ctrl+l' }, { action: 'wait', duration: 1 });
      const before = await desktop.pixels();
      await under.runtime.freeze(desktop.view.handle);
      await under.runtime.thaw(desktop.view.handle);
      expect((await desktop.pixels()).equals(before)).toBe(true);
      await desktop.terminal();
    });

    it('opens the terminal by the menu and by the bar, too', async () => {
      const terminals = async () => (await desktop.processes('xterm')).length;
      const before = await terminals();
      await desktop.run(
        { action: 'right_click', coordinate: [980, 600] },
        { action: 'wait', duration: 0.5 },
        { action: 'left_click', coordinate: [990, 613] },
      );
      await until('a second terminal', async () => ((await terminals()) === before + 1 ? true : undefined));
      await desktop.run(
        { action: 'left_click', coordinate: [20, 752] },
        { action: 'wait', duration: 0.5 },
        { action: 'left_click', coordinate: [20, 702] },
      );
      await until('a third terminal', async () => ((await terminals()) === before + 2 ? true : undefined));
    });

    it('opens a browser by a key, which asks nothing, shows a page, and holds it in a sandbox where the kernel lets it', async () => {
      await desktop.sh(`cat > server.pl <<'END'\n${SERVER}END`);
      await desktop.terminal();
      await desktop.run({ action: 'type', text: 'perl server.pl &\n' });
      const port = await desktop.content('port');
      await desktop.run({ action: 'key', text: 'ctrl+alt+b' });
      const isGreen = async () => {
        await desktop.run(
          { action: 'key', text: 'ctrl+l' },
          { action: 'type', text: `localhost:${port}\n` },
          { action: 'wait', duration: 1 },
        );
        const { pixels, width } = await desktop.frame();
        const at = (400 * width + 500) * 4;
        return [...pixels.subarray(at, at + 4)].join() === GREEN.join() ? true : undefined;
      };
      await until('the page', isGreen, { everyMs: 500 });
      const isSandboxed = isHeld || (await desktop.sh('[ $(id -u) != 0 ] && unshare -Urpnf --root=/ true && echo yes')) === 'yes\n';
      const { options, pages } = await desktop.browser();
      expect(options.includes('--no-sandbox')).toBe(!isSandboxed);
      // Such a page is in a namespace of processes of its own, and may make few system calls.
      if (isSandboxed) expect(pages).toMatch(/^NSpid:(\t\d+){2,}\nSeccomp:\t2$/m);
    });

    it('ends when its server ends, and starts again in the same container with what is in its home', async () => {
      await desktop.sh('echo kept > kept.txt');
      const [server] = await desktop.processes('Xtigervnc');
      await desktop.sh(`kill -9 ${server}`);
      expect((await desktop.ended()).exitCode).not.toBe(0);
      await desktop.start();
      expect(await desktop.sh('cat kept.txt')).toBe('kept\n');
      await desktop.terminal();
    });

    it('ends when its window manager ends', async () => {
      const [manager] = await desktop.processes('jwm');
      await desktop.sh(`kill ${manager}`);
      expect((await desktop.ended()).exitCode).not.toBe(0);
      await desktop.start();
    });

    it.each([
      [10, 0],
      [0, 137],
    ])('is stopped with a grace of %i s, and starts again', async (grace, exitCode) => {
      await under.runtime.stop(desktop.view.handle, grace);
      expect([0, exitCode]).toContain((await desktop.ended()).exitCode);
      await desktop.start();
      await desktop.terminal();
    });
  });
}
