import Dockerode from 'dockerode';

import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import type { RuntimeUnderTest } from '../contracts/runtime.fixture.contract.ts';
import { desktopImage, DESKTOP_IMAGE_MS } from '../support/desktop-image.ts';
import { dockerUnderTest } from '../support/docker-under-test.ts';
import { numbers } from '../support/hostile-image.ts';
import { removeInstance } from '../support/images.ts';
import { until } from '../support/until.ts';
import { desktopSpec, TestDesktop } from './desktop.contract.ts';

/** The time in which a program takes all user namespaces that it can get, ms. */
const TAKEN_WITHIN_MS = 3 * 60_000;

/**
 * Takes all user namespaces that the kernel gives, each held by an open file. A child shares the files of its parent, and makes as many as may be within
 * each other; a program without threads is needed for that, and no call of a library.
 */
const TAKER = `
my ($id, $group) = ($<, $( + 0);
sub say_to { my ($file, $text) = @_; open(my $f, ">", $file) or return; syswrite($f, $text); close($f) }
pipe(my $in, my $out);
for (1 .. 900) {
  last if $taken;
  if (!fork) {
    for my $round (1 .. 30) {
      my $child = syscall(${numbers.clone}, 0x400 | 17, 0, 0, 0, 0);
      if ($child == 0) {
        for (1 .. 30) {
          syscall(${numbers.unshare}, 0x10000000) == 0 or syscall(${numbers.exitGroup}, 1);
          say_to("/proc/self/uid_map", "$id $id 1"); say_to("/proc/self/setgroups", "deny"); say_to("/proc/self/gid_map", "$group $group 1");
          syscall(${numbers.openat}, -100, my $path = "/proc/self/ns/user", 0);
        }
        syscall(${numbers.exitGroup}, 0);
      }
      waitpid($child, 0);
      if ($?) { syswrite($out, "taken\\n"); sleep 3600 }
    }
    syswrite($out, "more\\n");
    sleep 3600;
  }
  $taken = <$in> eq "taken\\n";
}
open(my $f, ">", "taken"); close($f);
sleep 3600;
`;

jest.setTimeout(DESKTOP_IMAGE_MS);

describe('a computer that uses all user namespaces of its kernel', () => {
  const docker = new Dockerode();
  const desktops: TestDesktop[] = [];
  let under: RuntimeUnderTest;
  let taker: TestDesktop;
  let other: TestDesktop;

  beforeAll(async () => {
    under = dockerUnderTest(docker, (instance) => removeInstance(docker, instance), { computerImage: await desktopImage() });
    const image = await under.runtime.ensureImage({ kind: 'computer' }, () => undefined, timeoutSignal(15 * 60_000));
    const desktop = async () => {
      const made = new TestDesktop(under.runtime, desktopSpec(image, { cpus: 2 }));
      desktops.push(made);
      await made.start();
      return made;
    };
    taker = await desktop();
    other = await desktop();
    await taker.sh(`cat > taker.pl <<'END'\n${TAKER}END`);
    await taker.terminal();
    await taker.run({ action: 'type', text: 'for i in 1 2; do perl taker.pl & done\n' });
    await until('all are taken', async () => ((await taker.sh('ls')).split('\n').includes('taken') ? true : undefined), {
      timeoutMs: TAKEN_WITHIN_MS,
      everyMs: 500,
    });
  });
  afterAll(async () => {
    for (const desktop of desktops) await desktop.close();
    await under?.close();
  });

  it('has none left', async () => {
    expect(await taker.sh('unshare -U true 2>&1')).toContain('No space left on device');
  });

  it('leaves the browser of another one in its sandbox', async () => {
    await other.run({ action: 'key', text: 'ctrl+alt+b' });
    const shown = async () => ((await other.browser()).pages === '' ? undefined : other.browser());
    const { options, pages } = await until('a page', shown, { timeoutMs: 60_000, everyMs: 500 });
    expect(options).not.toContain('--no-sandbox');
    expect(pages).toMatch(/^NSpid:(\t\d+){2,}\nSeccomp:\t2$/m);
  });

  it('has no browser then, and no browser without a sandbox, which a window says', async () => {
    await taker.run({ action: 'key', text: 'ctrl+alt+b' });
    const windows = () => taker.sh(`for p in $(pgrep xterm); do tr '\\0' ' ' </proc/$p/cmdline; done`);
    const lack = 'The browser does not start: the programs of this computer have used up the namespaces';
    await until('the window', async () => ((await windows()).includes(lack) ? true : undefined));
    // The wrapper waits until the window is closed.
    expect(await taker.sh('readlink /proc/[0-9]*/exe | grep -c lib/chromium/chromium')).toBe('0\n');
  });
});
