/*
 * Runs one command of a build, with the output of this process, and ends with its exit code. Standard input stays open as long as the
 * service lives: when it ends, so does everything in this process group. Plain Node, because it runs as it is from src and from dist.
 * Arguments: the command in exec form.
 */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';

const [program, ...rest] = process.argv.slice(2);
process.stdin.on('close', () => process.kill(0, 'SIGKILL'));
process.stdin.on('error', () => undefined);
process.stdin.resume();

const child = spawn(program, rest, { stdio: ['ignore', 'inherit', 'inherit'] });
child.on('error', ({ code }) => {
  process.stderr.write(`${program}: ${code === 'ENOENT' ? 'command not found' : `can't be run (${code})`}\n`);
  process.exitCode = code === 'ENOENT' ? 127 : 126;
  process.exit();
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
