import { readSeccomp } from './builder-image.ts';

interface Rule {
  names: string[];
  action: string;
  args?: { index: number; value: number; valueTwo?: number; op: string }[];
}

describe('the system calls of a builder', () => {
  let rules: Rule[];
  beforeAll(async () => {
    const profile = JSON.parse(await readSeccomp()) as { defaultAction: string; syscalls: Rule[] };
    expect(profile.defaultAction).toBe('SCMP_ACT_ERRNO');
    rules = profile.syscalls;
  });

  const allowing = (name: string) => rules.filter(({ names, action }) => names.includes(name) && action === 'SCMP_ACT_ALLOW');

  it('are those that a user namespace needs, and none that reach other processes or the kernel', () => {
    for (const name of ['mount', 'umount2', 'pivot_root', 'sethostname', 'execve'])
      expect(allowing(name)).toEqual([expect.not.objectContaining({ args: expect.anything() })]);
    const never =
      'ptrace process_vm_readv process_vm_writev setns bpf perf_event_open init_module finit_module delete_module kexec_load open_by_handle_at ' +
      'userfaultfd io_uring_setup fsopen fsmount move_mount mount_setattr reboot syslog settimeofday quotactl nfsservctl add_key keyctl clone3';
    expect(never.split(' ').filter((name) => allowing(name).length > 0)).toEqual([]);
  });

  it('create no file watches, which the kernel counts for the host’s root', () => {
    expect(['inotify_init', 'inotify_init1', 'fanotify_init'].filter((name) => allowing(name).length > 0)).toEqual([]);
  });

  it.each(['clone', 'unshare'])('make every namespace but that of the network with %s', (name) => {
    const newNetwork = 0x40000000;
    expect(allowing(name).map(({ args }) => args)).toEqual([[{ index: 0, value: newNetwork, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }]]);
  });

  it('open sockets of the families before that of packets', () => {
    expect(allowing('socket').map(({ args }) => args)).toEqual([[{ index: 0, value: 17, op: 'SCMP_CMP_LT' }]]);
  });
});
