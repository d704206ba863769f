/** The program with which the engine starts every container's first process. It can adopt the orphans of a command as well. */
const init = '/sbin/docker-init';

/** The variable whose value finds the supervisor of a command. The command itself does not have it. */
export const SUPERVISOR_VARIABLE = 'MOORING_SUPERVISOR';

/** Kills every process that has the mark in its environment. */
export const sweep = `for round in 1 2 3; do
  found=$("$box" grep -lszxF "MOORING_EXEC=$mark" /proc/[0-9]*/environ); [ -n "$found" ] || break
  for file in $found; do pid=\${file#/proc/}; kill -9 "\${pid%/environ}" 2>/dev/null; done
done`;

/** Starts the script in its first argument below a process that adopts orphans, where the container has one. */
export const launch = `
script=$1 init=; shift
[ ! -x ${init} ] || init="${init} -s --"
exec $init "$4" sh -c "$script" exec "$@"
`;

/** Has the supervisor of a command kill it. A supervisor that was stopped goes on first. */
export const stop = `
for file in $("$2" grep -lszxF "${SUPERVISOR_VARIABLE}=$1" /proc/[0-9]*/environ); do
  pid=\${file#/proc/}; kill -TERM "\${pid%/environ}"; kill -CONT "\${pid%/environ}"
done 2>/dev/null
`;

/**
 * Runs in the container with the busybox shell. Arguments: the time (s), the most bytes of each stream, the mark, the helper program, the
 * command. The engine can't end an exec, so this script keeps the deadline, even if the control plane is gone. The command gets a session of
 * its own, and ends with this shell, should that fail to start another program.
 *
 * The command prints into pipes. Two programs copy the first bytes of each to the real output, and are replaced by ones that drop the rest,
 * so that no output without end leaves the container, and the command does not wait. A here-document is a pipe, whose other end is opened
 * by its number. The shell is woken (CHLD) when a copy ends; it is ended already when it is a zombie. Another pipe ends with the copies.
 *
 * A process that the command started becomes a child of this script's parent when its own parent ends, and is killed then. Where the engine's
 * init program is not there to be that parent, such processes are found by a mark in their environment, unless they removed it.
 */
export const supervisor = `
limit=$1 most=$2 mark=$3 box=$4 command=; shift 4
unset ${SUPERVISOR_VARIABLE}
case $1 in
*/*) path=$1 ;;
*)
  path= IFS=:; set -f
  for folder in $PATH; do [ -f "\${folder:-.}/$1" ] && [ -x "\${folder:-.}/$1" ] && path=\${folder:-.}/$1 && break; done
  unset IFS; set +f ;;
esac
if ! [ -e "$path" ]; then
  name=\${1##*/}
  case $1 in "$name" | /bin/"$name" | /usr/bin/"$name") ;; *) name= ;; esac
  if [ -z "$name" ] || ! "$box" --list | "$box" grep -qxF -e "$name"; then echo "$1: not found" >&2; exit 127; fi
  shift; set -- "$box" "$name" "$@"
else
  shift; set -- "$path" "$@"
fi
trap '[ -z "$command" ] || kill -9 -$command $command 2>/dev/null' TERM EXIT
trap : CHLD

exec 3<&0 </dev/null 4<<end 6<<end
end
end
exec 5>/proc/self/fd/4 7>/proc/self/fd/6
( export MOORING_EXEC=$mark; exec "$box" setsid "$@" <&3 >&5 2>&7 3<&- 4<&- 5>&- 6<&- 7>&- ) &
command=$!
exec 5>&- 7>&- 3<<end 8<<end
end
end
exec 5>/proc/self/fd/3 9>/proc/self/fd/8

# Nobody writes into this pipe. It ends early if this shell is killed.
(
  trap - TERM CHLD EXIT
  exec 4<&- 5>&- 6<&- 8<&- 9>&- >/dev/null 2>&1
  read -t "$limit" -r _ <&3
  kill -9 -$command $command
  ${sweep}
) &
watch=$!
copy() { exec "$box" dd count="$most" iflag=count_bytes bs=64k 3<&- 4<&- 5>&- 6<&- 8<&- 2>/dev/null; }
drop() { exec "$box" cat >/dev/null 2>&1 3<&- 4<&- 5>&- 6<&- 8<&-; }
copy <&4 &
out=$!
copy <&6 >&2 &
errors=$!
ended() { state=Z; read -r _ _ state _ </proc/$1/stat; [ "$state" = Z ]; } 2>/dev/null

while { wait $command; } 2>/dev/null; ! ended $command; do
  if [ -n "$out" ] && ended $out; then out=; drop <&4 & fi
  if [ -n "$errors" ] && ended $errors; then errors=; drop <&6 & fi
done
trap - CHLD
{ wait $command; code=$?; kill -9 $watch -$command; } 2>/dev/null

round=0 alone=0
while [ $round -lt 200 ] && [ $alone -lt 2 ]; do
  children=; read -r children </proc/$PPID/task/$PPID/children
  [ -n "$children" ] || break
  round=$((round + 1)) alone=$((alone + 1))
  for child in $children; do [ $child = $$ ] || { alone=0; kill -9 $child; }; done
  [ $alone -gt 0 ] || "$box" sleep 0.01
done 2>/dev/null
if [ $round = 0 ]; then
  ${sweep}
fi

# What escaped may hold the output open.
exec 3<&- 4<&- 5>&- 6<&- 9>&-
read -t 2 -r _ <&8
trap - EXIT
exit $code
`;
