import { IDS_PER_BUILDER } from './builder-names.ts';

/** The only static busybox of the builder's image. */
export const BUSYBOX = '/usr/local/lib/mooring/busybox';
/** The cache of an account, with the folders of BuildKit and our own. */
export const CACHE_FOLDER = '/var/lib/buildkit';
const RUN_FOLDER = '/run/builder';
export const SOCKET = `unix://${RUN_FOLDER}/buildkitd.sock`;
export const POLICY_FILE = `${RUN_FOLDER}/policy.json`;

/** BuildKit may read what a build gave it itself, and fetches nothing: the images that Dockerfiles name are given to it as folders. */
const sourcePolicy = JSON.stringify({
  rules: [
    { action: 'DENY', selector: { identifier: '*' } },
    { action: 'ALLOW', selector: { identifier: 'local://*' } },
    { action: 'ALLOW', selector: { identifier: 'oci-layout://*' } },
  ],
});

/** Returns BuildKit's settings. It is told the engine's name server, or else it writes public ones into the steps. */
export function daemonSettings(keepMb: number): string {
  return `root = "${CACHE_FOLDER}/daemon"
insecure-entitlements = []
[grpc]
  address = ["${SOCKET}"]
[dns]
  nameservers = ["127.0.0.11"]
[cdi]
  disabled = true
[history]
  maxEntries = 0
[worker.oci]
  enabled = true
  rootless = true
  snapshotter = "overlayfs"
  networkMode = "host"
  gc = true
  reservedSpace = "${Math.ceil(keepMb / 4)}MB"
  maxUsedSpace = "${keepMb}MB"
  max-parallelism = 2
[worker.containerd]
  enabled = false
[frontend."gateway.v0"]
  enabled = false
`;
}

/**
 * Runs as process 2 of the builder, root of its user namespace. It prints a line when BuildKit accepts builds, then each second: the KiB of
 * the cache (or that a path in it is too long to be measured, or that it has too many files), the KiB of removed files that are still open,
 * which no folder shows, and the free and total KiB of the disk. It prints that it stops measuring, such as when no processes are left for
 * it. It ends with its input, which the service holds, and then everything in the container ends.
 */
const script = `
box=$1 settings=$2 policy=$3 most=$4
"$box" mkdir -p ${RUN_FOLDER} && cd / || exit 1
printf %s "$settings" >${RUN_FOLDER}/buildkitd.toml
printf %s "$policy" >${POLICY_FILE}
exec 3<&0 4>&1
buildkitd --config ${RUN_FOLDER}/buildkitd.toml </dev/null >&2 3<&- 4>&- &
daemon=$!
( "$box" cat <&3 >/dev/null 4>&-; kill -9 $daemon ) 4>&- &
exec 3<&-
until [ -S ${RUN_FOLDER}/buildkitd.sock ]; do kill -0 $daemon 2>/dev/null || exit 1; "$box" sleep 0.05; done
echo ready >&4
(
  trap 'echo unwatched >&4' EXIT
  while kill -0 $daemon 2>/dev/null; do
    used=$("$box" du -akx ${CACHE_FOLDER} 2>&1 | "$box" awk -v most="$most" '
      /File name too long/ { long = 1 }
      /^[0-9]+\t/ { if (++count > most) { many = 1; exit } }
      { last = $1 }
      END { print many ? "many" : long ? "long" : last }')
    removed=$("$box" find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 -exec "$box" stat -L -c '%h %d %i %b' {} + 2>/dev/null | "$box" awk '
      $1 == "0" && !seen[$2 " " $3]++ { sum += $4 }
      END { print int(sum / 2) }')
    disk=$("$box" df -kP ${CACHE_FOLDER} | "$box" awk 'END { print $4, $2 }')
    echo "used $used $removed $disk" >&4
    "$box" sleep 1
  done
) </dev/null 2>/dev/null &
wait $daemon
`;

/**
 * Returns the command of a builder. Root of the container has two capabilities, with which it creates the user namespace and becomes its
 * root. After that no process has any right outside. The command contains no text of a tenant.
 */
export function startCommand(firstId: number, { keepMb, filesMax }: { keepMb: number; filesMax: number }): string[] {
  const map = `${firstId},0,${IDS_PER_BUILDER}`;
  const launcher = ['unshare', '--user', '--mount', `--map-users=${map}`, `--map-groups=${map}`, '--setuid', '0', '--setgid', '0'];
  return [
    ...launcher,
    '--',
    'tini',
    '--',
    BUSYBOX,
    'sh',
    '-c',
    script,
    'builder',
    BUSYBOX,
    daemonSettings(keepMb),
    sourcePolicy,
    String(filesMax),
  ];
}
