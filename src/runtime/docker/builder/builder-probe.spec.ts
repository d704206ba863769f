import { lackOfAnswers, lackOfStart, lackOfStep } from './builder-probe.ts';

const user = 1_879_048_192;
const good = [
  '[2/2] RUN ["/bin/busybox"]',
  'CapEff:\t00000000a80425fb',
  'NoNewPrivs:\t1',
  'Seccomp:\t2',
  `uid_map: 0 ${user} 65536`,
  'packet: arping: socket(AF_PACKET,2,0): Operation not permitted',
  'host: closed',
];
const but = (line: string): string[] => [...good.filter((each) => each.split(':')[0] !== line.split(':')[0]), line];

describe('the probe of a host for Dockerfile builds', () => {
  it('succeeds if a step has no privileges outside of its user namespace', () => {
    expect(lackOfAnswers(good, user)).toBeNull();
  });

  it.each([
    ['NoNewPrivs:\t0', /get more rights/],
    ['Seccomp:\t0', /no filter of system calls/],
    ['uid_map: 0 0 4294967295', /user without rights/],
    ['packet: Sent 1 probe(s) (0 broadcast(s))', /packets in the name of others/],
    ['packet:', /packets in the name of others/],
    ['host: open', /settings of the host/],
  ])('fails if a step prints %j', (line, reason) => {
    expect(lackOfAnswers(but(line), user)).toMatch(reason);
  });

  it('fails if the step printed nothing', () => {
    expect(lackOfAnswers([], user)).toMatch(/No Dockerfile can be built here/);
  });

  it.each([
    ['unshare: unshare failed: No space left on device', /no user namespaces \(sysctl user\.max_user_namespaces/],
    ['unshare: unshare failed: Operation not permitted', /refuses user namespaces/],
    ['apparmor="DENIED" operation="userns_create"', /AppArmor/],
    ['newuidmap: write to uid_map failed: Operation not permitted', /too few user ids/],
    ['failed to mount overlay: operation not permitted', /Linux 5\.11/],
    ['runc run failed: error mounting "proc" to rootfs at "/proc": mount /proc: operation not permitted', /mounts in a user namespace/],
  ])('fails if the builder prints %j, and the reason names what to change', (said, reason) => {
    expect(lackOfStart(said)).toMatch(reason);
  });

  it('is inconclusive after other output at the start, and fails after other output of the step', () => {
    expect(lackOfStart('something else')).toBeNull();
    expect(lackOfStep('something else')).toMatch(/could not run on this host \(something else\)/);
  });
});
