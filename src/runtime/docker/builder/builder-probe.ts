import { IDS_PER_BUILDER } from './builder-names.ts';

const refused = 'No Dockerfile can be built here';
const otherwise = 'The operator can also choose MOORING_BUILDER=engine for accounts that trust each other.';

/** The reasons why a builder can't start or run a step on a host, as its programs report them. */
const causes: [RegExp, string][] = [
  [
    /unshare failed: (No space left on device|Invalid argument)|max_user_namespaces/i,
    'the host allows no user namespaces (sysctl user.max_user_namespaces, or a kernel without them)',
  ],
  [
    /apparmor/i,
    'AppArmor keeps the builder from what it needs; on Ubuntu 24.04 or later allow user namespaces (kernel.apparmor_restrict_unprivileged_userns=0)',
  ],
  [
    /new[ug]idmap: (write to|uid range|gid range)|new[ug]idmap.*not allowed|uid_map/i,
    'the engine gives its containers too few user ids (userns-remap, or a rootless engine)',
  ],
  [
    /unshare failed: (Operation not permitted|Permission denied)/i,
    'the host or the engine refuses user namespaces (AppArmor, SELinux, seccomp or gVisor)',
  ],
  [/overlay|snapshotter/i, 'the host’s kernel can’t mount overlayfs in a user namespace (it needs Linux 5.11 or later)'],
  [/mount.*(proc|devpts|sysfs).*(not permitted|denied)|mount \/proc/i, 'the host refuses mounts in a user namespace (AppArmor or SELinux)'],
];

/** Returns why no builder can run on this host, judging by the output of one that could not start; null if that is unknown. */
export function lackOfStart(said: string): string | null {
  const cause = causes.find(([pattern]) => pattern.test(said))?.[1];
  return cause === undefined ? null : `${refused}: ${cause}. ${otherwise}`;
}

/** The Dockerfile of the probe, which has no base image. Its only file is busybox. */
export const probeDockerfile = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "\
b() { /bin/busybox \\"$@\\"; }; \
b grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; \
echo uid_map: $(b cat /proc/self/uid_map); \
echo packet: $(b arping -c 1 -w 1 -I eth0 192.0.2.1 2>&1); \
echo host: $( ( : >>/proc/sys/kernel/core_pattern ) 2>/dev/null && echo open || echo closed)"]
`;

/** Returns why no step can run on this host, judging by BuildKit's message about the probe's step. */
export function lackOfStep(said: string): string {
  return lackOfStart(said) ?? `${refused}: a step of a build could not run on this host (${said.slice(0, 300)}). ${otherwise}`;
}

/** Returns why no Dockerfile may be built here, judging by the lines that the probe's step printed; null if builds are allowed. */
export function lackOfAnswers(lines: readonly string[], user: number): string | null {
  const answer = (name: string): string | null =>
    lines
      .find((line) => line.startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim() ?? null;
  const wrong: string[] = [];
  if (answer('NoNewPrivs') !== '1') wrong.push('a step can get more rights');
  if (answer('Seccomp') !== '2') wrong.push('a step has no filter of system calls');
  if (answer('uid_map') !== `0 ${user} ${IDS_PER_BUILDER}`) wrong.push('root of a step is not a user without rights of the host');
  if (!/not permitted|denied/i.test(answer('packet') ?? '')) wrong.push('a step can send packets in the name of others');
  if (answer('host') !== 'closed') wrong.push('a step can write settings of the host');
  return wrong.length === 0 ? null : `${refused}: ${wrong.join(', ')}. ${otherwise}`;
}
