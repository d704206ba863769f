import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { hostileImage, numbers } from '../../../../test/support/hostile-image.ts';
import { profileIn } from '../engine/seccomp-profile.ts';
import type { ContainerView } from '../../container.ts';

const user = '10001:10001';
const NEW_USER = 0x10000000;

/** The kinds of sockets that perl tries to open: family, type and protocol. */
const sockets = {
  packet: [17, 3, 0],
  raw: [2, 3, 1],
  'raw, in IPv6': [10, 3, 58],
  'rules of the packet filter': [16, 3, 12],
  keys: [15, 3, 2],
  cryptography: [38, 5, 0],
  'the machine’s own': [40, 1, 0],
} as const;

describe('a container that may make user namespaces', () => {
  let bed: DockerFixture;
  let view: ContainerView;
  beforeAll(async () => {
    bed = await DockerFixture.open();
    view = await bed.running({
      image: await hostileImage(bed),
      user,
      userNamespaces: true,
      shmBytes: 8 * 1024 * 1024,
      tmpfs: [
        { path: '/run/user/1000', uid: 10_001, mode: 0o700, sizeBytes: 1024 * 1024 },
        { path: '/tmp', exec: true },
      ],
    });
  });
  afterAll(() => bed?.close());

  /** Runs a shell line as root of namespaces of its own: of users, processes and the network, as a browser has for its pages. */
  const inside = (line: string) =>
    bed.output(view, `/bin/busybox unshare -U -r -n -p -f /bin/sh -c '${line.replaceAll("'", String.raw`'\''`)}' 2>&1`);
  const perl = (script: string) => inside(`perl -e '${script.replaceAll("'", String.raw`'\''`)}'`);

  it('makes what a browser’s sandbox needs, and has its folders in memory', async () => {
    expect(await inside('id -u; mkdir -p /tmp/root/bin; cp /bin/busybox /tmp/root/bin; chroot /tmp/root /bin/busybox ls /')).toBe(
      '0\nbin\n',
    );
    expect(await bed.output(view, 'stat -c "%u %g %a" /run/user/1000 /tmp')).toBe('10001 10001 700\n10001 10001 1777\n');
    expect(await bed.output(view, "df -k /dev/shm /run/user/1000 | awk 'NR > 1 { print $2 }'")).toBe('8192\n1024\n');
  });

  it('has no privileges there over anything outside of it', async () => {
    const refused = [
      'mount -t tmpfs none /tmp',
      'mount -t proc none /proc',
      'mount --bind / /tmp',
      'umount /tmp',
      'mknod /tmp/device b 8 0',
      'hostname other',
      'chown 0 /etc/passwd',
      'dmesg',
      'echo 1 > /proc/sys/kernel/core_pattern',
      'echo 1 > /proc/sys/net/ipv4/ip_forward',
      'unshare -m true',
      'unshare -i true',
      'unshare -u true',
      'unshare -C true',
      'nsenter -t 1 -n true',
      'insmod /bin/busybox',
    ];
    for (const line of refused) expect(`${line}: ${await inside(`(${line}) 2>/dev/null && echo DONE; true`)}`).toBe(`${line}: `);
  });

  it('has a network there that leads nowhere', async () => {
    const neighbour = await bed.running({ command: ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'] });
    const { NetworkSettings } = await bed.docker.getContainer(neighbour.handle).inspect();
    const [network] = Object.values(NetworkSettings.Networks);
    expect(await inside('ip -o link | cut -d: -f2')).toBe(' lo\n');
    for (const address of [network?.IPAddress, network?.Gateway, '169.254.169.254', '127.0.0.11'])
      expect(await inside(`echo x | nc -w 2 ${address} 8080`)).toMatch(/unreachable|refused/);
    // No device leads out of it, whatever it makes there.
    expect(await inside('ip link set eth0 up; ip link add link eth0 name mine type macvlan && echo DONE; true')).not.toContain('DONE');
  });

  it('opens no socket there by which kernels were taken over', async () => {
    const tries = Object.entries(sockets).map(([name, kind]) => `print socket(my $s, ${kind.join(', ')}) ? "OPEN ${name}\n" : "";`);
    expect(await perl(tries.join('\n'))).toBe('');
    // Rules of the packet filter of older kernels, for which any socket serves.
    const [replace, above] = ['setsockopt($s, 0, 64, $x)', 'setsockopt($s, 41, 64, $x)'].map(
      (call) => `print ${call} ? "DONE" : $! + 0, "\n";`,
    );
    expect(await perl(`my $x = "x" x 200; socket(my $s, 2, 1, 0) or die; ${replace} socket($s, 10, 1, 0) or die; ${above}`)).toBe('1\n1\n');
    expect(
      await perl(
        'print join(" ", map { socket(my $s, $_->[0], $_->[1], 0) ? "open" : "refused" } [1, 1], [2, 1], [2, 2], [10, 1], [16, 3])',
      ),
    ).toBe('open open open open open');
  });

  it('makes no namespace and no call of the kernel beyond those, by whatever number', async () => {
    const spaces = { mounts: 0x20000, groups: 0x2000000, names: 0x4000000, messages: 0x8000000, times: 0x80 };
    const tries = Object.entries(spaces).map(
      ([name, flag]) => `print syscall(${numbers.unshare}, ${NEW_USER | flag}) == 0 ? "MADE ${name}\n" : "";`,
    );
    expect(await perl(tries.join('\n'))).toBe('');
    const calls = `for my $n (${numbers.setns}, ${numbers.mount}, ${numbers.bpf}, ${numbers.clockSettime}, ${numbers.clone3}) { print syscall($n, 0, 0, 0, 0, 0), " ", $! + 0, "\n" }`;
    expect(await perl(calls)).toBe('-1 1\n-1 1\n-1 1\n-1 1\n-1 38\n');
  });

  it('is the only kind that can: any other container creates none', async () => {
    const other = await bed.running({ user });
    expect(await bed.output(other, '/bin/busybox unshare -U true')).toContain('Operation not permitted');
    const optionsOf = async ({ handle }: ContainerView) => (await bed.docker.getContainer(handle).inspect()).HostConfig.SecurityOpt;
    expect(profileIn(await optionsOf(other))).toBe('');
    expect(profileIn(await optionsOf(view))).toContain('SCMP_ACT_ERRNO');
  });

  it('is created again if an earlier release created it with another profile', async () => {
    const spec = bed.spec({ userNamespaces: true });
    const made = await bed.runtime.create(spec);
    const container = bed.docker.getContainer(made.handle);
    const { Name, Config, HostConfig } = await container.inspect();
    await container.remove();
    const SecurityOpt = ['no-new-privileges:true', 'seccomp={"defaultAction":"SCMP_ACT_ALLOW"}'];
    const old = await bed.docker.createContainer({ ...Config, name: Name.slice(1), HostConfig: { ...HostConfig, SecurityOpt } });
    await expect(bed.runtime.start(old.id, {})).rejects.toThrow(/gone/);
    const again = await bed.runtime.create(spec);
    expect(again.handle).not.toBe(old.id);
    await bed.runtime.start(again.handle, {});
    expect(await bed.state(again)).toMatchObject({ state: 'running' });
  });
});
