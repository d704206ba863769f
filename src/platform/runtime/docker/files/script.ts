import { UNFINISHED_MS_MAX, UNFINISHED_PREFIX } from '../../file-paths.ts';

/**
 * The parts of the program that runs in the agent's container for one call on files, with the busybox shell and as the container's own user,
 * so that it can do no more than the agent itself, and what it writes belongs to the agent. Nothing of a caller is ever part of it: paths
 * are its arguments. It answers by fields that each end in NUL.
 *
 * `walk` is the rule of confinement. It enters every folder of the path and asks the kernel where it is then. A folder that is entered can't
 * leave the volume any more, since nothing can be renamed out of a mount, so afterwards only the last name is used, in the folder that was
 * entered, by programs that don't follow a link there. A folder is held by a descriptor, never by its path.
 */
const common = `
answer() { printf '%s\\0' "$@"; }
refuse() {
  case $confined\${PWD%/}/ in yes"$root"/* | no*) answer refused "$1" ;; *) answer refused outside_volume ;; esac
  exit 0
}
fail() { answer refused failed; exit 0; }
kind() {
  if [ -L "./$1" ]; then kind=link; elif [ -d "./$1" ]; then kind=directory; elif [ -f "./$1" ]; then kind=file
  elif [ -e "./$1" ]; then kind=other; else kind=none; fi
}
slashes() { while :; do case $rest in /*) rest=\${rest#/} ;; *) return ;; esac; done; }

# Enters the folder that holds the last name of the path $1. Sets 'name' to it, or to nothing for the volume's root and for /, 'kind', and
# 'missing' to what follows a name that does not exist. Follows a link that is the last name only if $2 is 'follow'.
walk() {
  rest=$1 links=0 name= missing=
  case $rest in /*) cd -P / ;; *) cd -P "$root" ;; esac || refuse not_found
  slashes
  while [ -n "$rest" ]; do
    case $rest in */*) part=\${rest%%/*} rest=\${rest#*/} ;; *) part=$rest rest= ;; esac
    slashes
    case $part in . | '') continue ;; ..) cd -P .. || refuse not_found; continue ;; esac
    if [ -L "./$part" ] && { [ -n "$rest" ] || [ "$2" = follow ]; }; then
      links=$((links + 1))
      goal=$("$box" readlink -n "./$part" && echo x) && [ $links -le 40 ] || refuse not_found
      rest=\${goal%x}/$rest
      case $rest in /*) cd -P / ;; esac
      slashes
    elif [ -z "$rest" ]; then name=$part
    elif [ -d "./$part" ]; then cd -P "./$part" || refuse not_found
    elif [ -e "./$part" ]; then refuse not_a_directory
    else name=$part missing=$rest; break
    fi
  done
  if [ -z "$name" ] && [ "$PWD" != / ] && [ "$PWD" != "$root" ]; then name=\${PWD##*/}; cd -P .. || refuse not_found; fi
  if [ "\${PWD%/}/$name" = "$root" ]; then cd -P "$root" && name=; fi
  if [ -n "$name" ]; then kind "$name"; else kind=directory; fi
  [ $confined = no ] || inside "$name"
}
# Refuses unless the name in the folder that was entered is in the volume.
inside() { case \${PWD%/}/$1 in "$root"/*) ;; *) refuse outside_volume ;; esac; }
enter() { if [ -n "$1" ]; then cd -P "./$1" 2>/dev/null || refuse not_found; fi; }
# Creates the folders of the path $1, and enters the last one.
folders() {
  rest=$1
  while [ -n "$rest" ]; do
    case $rest in */*) part=\${rest%%/*} rest=\${rest#*/} ;; *) part=$rest rest= ;; esac
    slashes
    case $part in .. | . | '') refuse not_found ;; esac
    "$box" mkdir "./$part" || [ -d "./$part" ] || fail
    enter "$part"
    inside ''
  done
}
# Ends the program when the caller goes away, which ends its standard input, and after $1 seconds.
watch() {
  exec 4<&0 </dev/null
  ( read -t "$1" -r _; kill -9 -$$ 2>/dev/null || kill -9 $$ ) <&4 >/dev/null 2>&1 &
  watcher=$!
  trap 'kill -9 $watcher' EXIT
}
# Removes the unfinished files of a crash from the folder that was entered.
sweep() {
  for each in ./${UNFINISHED_PREFIX}*; do
    [ -e "$each" ] && "$box" find . -mindepth 1 -maxdepth 1 -type f -name '${UNFINISHED_PREFIX}*' -mmin +${UNFINISHED_MS_MAX / 60_000} -exec "$box" rm -f -- {} +
    return 0
  done
}
umask 022
box=$1 root=$2 confined=yes
shift 2
cd -P "$root" && [ "$PWD" = "$root" ] || { answer refused no_volume; exit 0; }
`;

/** Arguments: the time (s), the path, and the most bytes of the answer. Names have no slash, so the answer's fields can't be forged. */
const list = `
watch "$1"
walk "$2" follow
[ $kind != none ] || refuse not_found
[ $kind = directory ] || refuse not_a_directory
enter "$name"
case $PWD/ in "$root"/*) ;; *) refuse outside_volume ;; esac
sweep
answer list "$PWD"
"$box" find . -mindepth 1 -maxdepth 1 -exec "$box" stat -c '%f %s %Y %n' -- {} + 2>/dev/null | "$box" head -c "$3"
`;

/**
 * Arguments: the time (s), the path, and the most bytes of the file or '-'. After its answer it reads a line from standard input: the first
 * byte and the number of bytes of a file; anything for a directory, which it prints as a tar whose names begin with that of the directory.
 * The folders in which the system shows its processes are refused, since they hold the agent's secrets, and left out of a tar of the root.
 */
const read = `
confined=no
walk "$2" follow
permitted() { case $1/ in /proc/* | /sys/* | /dev/*) refuse not_permitted ;; esac; }
case $kind in
none) refuse not_found ;;
directory)
  enter "$name"
  permitted "$PWD"
  answer found directory "$PWD" 0 "$("$box" stat -c %Y .)"
  read -t "$1" -r _ || exit 0
  watch "$1"
  if [ "$PWD" = / ]; then
    set --
    for each in ./* ./.[!.]* ./..?*; do
      case $each in ./proc | ./sys | ./dev) ;; *) [ ! -e "$each" ] && [ ! -L "$each" ] || set -- "$@" "\${each#./}" ;; esac
    done
  else
    set -- "\${PWD##*/}"
    cd -P .. || fail
  fi
  "$box" tar -c -f - -- "$@" 2>/dev/null
  exit 0 ;;
file) ;;
*) refuse not_a_file ;;
esac
permitted "$PWD"
exec 3<"./$name"
path=$("$box" readlink -n /proc/self/fd/3 && echo x) || fail
path=\${path%x}
permitted "$path"
set -- "$1" "$3" $("$box" stat -L -c '%f %s %Y' /proc/self/fd/3)
case $3 in 8???) ;; *) refuse not_a_file ;; esac
[ "$2" = - ] || [ "$4" -le "$2" ] || refuse too_large
answer found file "$path" "$4" "$5"
read -t "$1" -r start count || exit 0
watch "$1"
"$box" dd bs=262144 iflag=skip_bytes,count_bytes skip="$start" count="$count" <&3 2>/dev/null
`;

/**
 * Arguments: the path, 'parents' or '-', 'replace' or 'refuse', and the name of the unfinished file. After its first answer it reads blocks
 * from standard input: a line with the length, and the bytes; then the line 'end'. Without that nothing is written.
 */
const write = `
walk "$1" follow
[ -n "$name" ] && [ $kind != directory ] || refuse is_a_directory
if [ -n "$missing" ]; then
  [ "$2" = parents ] || refuse not_found
  path=$name/$missing
  folders "\${path%/*}"
  name=\${path##*/}
  kind "$name"
fi
case $kind in none) ;; file) [ "$3" = replace ] || refuse exists ;; directory) refuse is_a_directory ;; *) refuse not_a_file ;; esac
mode=644 created=true unfinished=$4
if [ $kind = file ]; then mode=$("$box" stat -c %a "./$name") || fail; created=false; fi
case $mode in ????) mode=\${mode#?} ;; esac
sweep
set -C
umask 077
exec 5>"./$unfinished"
set +C
give_up() { "$box" rm -f "./$unfinished"; "$1" "$2"; }
answer ready
whole=no
while read -r bytes; do
  case $bytes in end) whole=yes; break ;; esac
  "$box" dd bs="$bytes" count=1 iflag=fullblock >&5 || give_up fail
done
[ $whole = yes ] || give_up refuse broken
"$box" chmod "$mode" /proc/self/fd/5 && "$box" sync /proc/self/fd/5 || give_up fail
if [ "$3" = replace ]; then "$box" mv -f -T "./$unfinished" "./$name" || give_up fail
else "$box" ln -T "./$unfinished" "./$name" || give_up fail; "$box" rm -f "./$unfinished"
fi
"$box" sync .
answer written "$PWD/$name" $created
`;

/** Arguments: the time (s), the path, and 'parents' or '-'. */
const makeDirectory = `
watch "$1"
walk "$2" follow
case $kind in
directory) answer made "$PWD\${name:+/$name}" false; exit 0 ;;
none) ;;
*) refuse exists ;;
esac
[ -z "$missing" ] || [ "$3" = parents ] || refuse not_found
folders "$name\${missing:+/$missing}"
answer made "$PWD" true
`;

/** Arguments: the time (s), the two paths, and 'replace' if a file may replace a file. */
const move = `
watch "$1"
walk "$2" keep
old=$name kind_of_old=$kind
exec 6<.
walk "$3" keep
exec 7<.
new=$name to=$PWD/$name
case $4,$kind_of_old,$kind in replace,file,file) replaces=yes ;; *) replaces=no ;; esac
[ -n "$old" ] || refuse volume_root
[ "$kind_of_old" != none ] && [ -z "$missing" ] || refuse not_found
[ -n "$new" ] && { [ $kind = none ] || [ $replaces = yes ]; } || refuse exists
cd -P /proc/self/fd/6 && inside "$old"
if [ $replaces$kind_of_old != nofile ]; then
  set -- $("$box" stat -c %d . /proc/self/fd/7/.)
  [ "$1" = "$2" ] || refuse invalid_path
fi
if [ $replaces = yes ]; then "$box" mv -f -T "./$old" "/proc/self/fd/7/$new" || fail
elif [ "$kind_of_old" = directory ]; then
  "$box" mkdir "/proc/self/fd/7/$new" || fail
  "$box" mv -T "./$old" "/proc/self/fd/7/$new" || { "$box" rmdir "/proc/self/fd/7/$new"; fail; }
else "$box" ln -T "./$old" "/proc/self/fd/7/$new" && "$box" rm -f "./$old" || fail
fi
answer moved "$PWD/$old" "$to"
`;

/**
 * Arguments: the time (s), the path, and the beginning of unused names. A folder is emptied level by level: the folders within a folder are
 * moved up into the one that is removed, so that each is entered from there, whatever is swapped meanwhile.
 */
const remove = `
watch "$1"
walk "$2" keep
[ -n "$name" ] || refuse volume_root
[ $kind != none ] || refuse not_found
path=$PWD/$name
if [ $kind != directory ]; then "$box" rm -f "./$name" || fail; answer removed "$path"; exit 0; fi
no_files() { "$box" find . -mindepth 1 -maxdepth 1 ! -type d -exec "$box" rm -f -- {} +; }
exec 7<.
enter "$name"
inside ''
exec 6<.
moved=0 stuck=0
while :; do
  no_files
  some=no
  for outer in ./* ./.[!.]* ./..?*; do
    [ -d "$outer" ] && [ ! -L "$outer" ] || continue
    cd -P "$outer" 2>/dev/null || { "$box" rmdir "$outer"; continue; }
    some=yes
    inside ''
    no_files
    for inner in ./* ./.[!.]* ./..?*; do
      [ -d "$inner" ] && [ ! -L "$inner" ] && "$box" mv -T "$inner" "/proc/self/fd/6/$3$moved" && moved=$((moved + 1))
    done
    cd -P /proc/self/fd/6
    "$box" rmdir "$outer" || stuck=$((stuck + 1))
    [ $stuck -le 1000 ] || fail
  done
  [ $some = yes ] || break
done
cd -P /proc/self/fd/7 && "$box" rmdir "./$name" || refuse not_permitted
answer removed "$path"
`;

const parts = { list, read, write, makeDirectory, move, remove };

export type FileProgram = keyof typeof parts;

/** Returns the whole program of a call. */
export function fileScript(program: FileProgram): string {
  return common + parts[program];
}
