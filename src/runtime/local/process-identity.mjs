import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

let bootId;

/** Linux counts start times from the boot, so the boot id is part of a process's identity. */
function boot() {
  bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return bootId;
}

/**
 * Returns the process that has this pid now, or null if there is none, or only a zombie. `identity` changes when another process gets the
 * pid; `stopped` is true after SIGSTOP.
 */
export function whoIs(pid) {
  try {
    return process.platform === 'linux' ? fromProc(pid) : fromPs(pid);
  } catch {
    return null;
  }
}

function fromProc(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name in parentheses may itself contain blanks and parentheses, so the fields are counted from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return described(fields[0], `${boot()}:${fields[19]}`);
}

function fromPs(pid) {
  const answer = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
    encoding: 'utf8',
    env: { PATH: '/bin:/usr/bin', LC_ALL: 'C' },
  });
  const [state, ...start] = answer.trim().split(/\s+/);
  return described(state, start.join(' '));
}

function described(state, identity) {
  return /^[ZX]/.test(state) ? null : { identity, stopped: /^[Tt]/.test(state) };
}
