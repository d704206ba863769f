import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

import Dockerode from 'dockerode';

import { computerSandbox } from '../../src/sandboxes/index.ts';
import { seenContainers, seenVolumes } from './engine.ts';
import { processesOf } from './framework-agent.ts';
import { until } from './until.ts';

/** The numbers of the buttons and the codes of the keys that are pressed on a desktop. */
export interface HeldInput {
  buttons: number[];
  keys: number[];
}

/** Queries the X server of DISPLAY for pressed buttons and keys, with Debian's standard Perl: QueryPointer and QueryKeymap. */
const HELD_INPUT = String.raw`
use strict; use Socket;
sub take { my $all = ''; while (length($all) < $_[0]) { sysread(X, $all, $_[0] - length($all), length($all)) or die "cut off" } $all }
my ($number) = $ENV{DISPLAY} =~ /:(\d+)/;
socket(X, PF_UNIX, SOCK_STREAM, 0);
connect(X, sockaddr_un("/tmp/.X11-unix/X$number")) or die "no display: $!";
open(my $file, '<:raw', "$ENV{HOME}/.Xauthority") or die "no key: $!";
my $key = substr(do { local $/; <$file> }, -16);
syswrite(X, pack('A1 x v4 x2 A18 x2 a16', 'l', 11, 0, 18, 16, 'MIT-MAGIC-COOKIE-1', $key));
my ($let, $words) = unpack('C x5 v', take(8));
my $screens = take(4 * $words);
die "refused" unless $let == 1;
my ($vendor, $formats) = unpack('x16 v x3 C', $screens);
my $root = substr($screens, 32 + (($vendor + 3) & ~3) + 8 * $formats, 4);
syswrite(X, pack('C x v', 38, 2) . $root . pack('C x v', 44, 1));
my $mask = unpack('x24 v', take(32));
my @keys = split //, unpack('x8 b256', take(40));
print '{"buttons":[', join(',', grep { $mask >> (7 + $_) & 1 } 1 .. 5), '],"keys":[', join(',', grep { $keys[$_] } 0 .. 255), "]}\n";
`;

/** The container of a computer as the machine has it, independent of the service. */
export interface SeenComputer {
  heldInput(): Promise<HeldInput>;
  /** Kills the container from outside. */
  kill(): Promise<void>;
  /** Waits until the container has ended, and returns that time, in ms since the epoch. */
  ended(): Promise<number>;
}

/** Returns the running container of the computer. */
export function seenComputer(runtime: 'docker' | 'local', computerId: string): Promise<SeenComputer> {
  return runtime === 'docker' ? inDocker(computerId) : onMachine(computerId);
}

/** Returns the names of the containers, volumes and folders of the computer. */
export async function leftOf(runtime: 'docker' | 'local', dataDir: string, computerId: string): Promise<string[]> {
  const sandboxId = computerSandbox(computerId);
  if (runtime === 'local') return (await readdir(dataDir, { recursive: true })).filter((path) => path.includes(sandboxId));
  return [...(await seenContainers(sandboxId)).map(({ id }) => id), ...(await seenVolumes(sandboxId))];
}

const docker = new Dockerode();

async function inDocker(computerId: string): Promise<SeenComputer> {
  const [seen] = await seenContainers(computerSandbox(computerId));
  if (seen === undefined) throw new Error('the computer has no container');
  const container = docker.getContainer(seen.id);
  return {
    async heldInput() {
      const exec = await container.exec({ Cmd: ['perl', '-e', HELD_INPUT], AttachStdout: true, AttachStderr: true });
      let text = '';
      for await (const chunk of await exec.start({})) text += String(chunk);
      // The engine puts a header before each chunk of the output.
      const [told] = /\{.*\}/.exec(text) ?? [];
      if (told === undefined) throw new Error(`the desktop did not tell what is held down: ${text}`);
      return JSON.parse(told) as HeldInput;
    },
    kill: () => container.kill(),
    async ended() {
      await container.wait();
      return Date.parse((await container.inspect()).State.FinishedAt);
    },
  };
}

async function onMachine(computerId: string): Promise<SeenComputer> {
  const own = (await processesOf(computerSandbox(computerId))).map(async (pid) => ({ pid, name: await nameOf(pid) }));
  const server = (await Promise.all(own)).find(({ name }) => name === 'Xtigervnc')?.pid;
  if (server === undefined) throw new Error('the computer has no desktop');
  const variables = (await readFile(`/proc/${server}/environ`, 'utf8')).split('\0').filter(Boolean);
  const env = Object.fromEntries(variables.map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]));
  return {
    heldInput: async () => JSON.parse((await promisify(execFile)('perl', ['-e', HELD_INPUT], { env })).stdout) as HeldInput,
    async kill() {
      process.kill(server, 'SIGKILL');
    },
    ended: () => until('the desktop has ended', async () => ((await nameOf(server)) === null ? Date.now() : undefined), { everyMs: 10 }),
  };
}

/** Returns the name of the process; null once it has ended. */
async function nameOf(pid: number): Promise<string | null> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return /^State:\tZ/m.test(status) ? null : (/^Name:\t(.*)$/m.exec(status)?.[1] ?? null);
}
