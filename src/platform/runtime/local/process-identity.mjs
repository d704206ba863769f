import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

let bootId;

/** Start times of Linux count from the boot, so the boot is part of who a process is. */
function boot() {
  bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return bootId;
}

/**
 * Who has this pid now. `identity` differs when the pid was given to another process; `stopped` is true after SIGSTOP.
 * Null where nobody has it, or only a zombie.
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
  // The name in parentheses may itself hold blanks and parentheses: the fields count from the last one.
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
