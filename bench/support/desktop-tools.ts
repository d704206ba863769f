import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type Dockerode from 'dockerode';

import { EngineExec } from './engine-exec.ts';

const execute = promisify(execFile);
/** The folder of the programs in a container, whose image does not contain them. */
const FOLDER = '/opt/tools';
const LIBRARIES = '/usr/lib/x86_64-linux-gnu';

/** Other tools for operating a desktop, with a process for each call: Debian's packages `xdotool` and `scrot`. */
export interface DesktopTools {
  click(x: number, y: number): Promise<void>;
  /** Takes a picture as PNG, and returns the number of its bytes. */
  picture(): Promise<number>;
}

/** Returns the tools for a desktop whose programs are processes of this machine. */
export function toolsHere(dataDir: string): DesktopTools {
  const env = environmentBelow(dataDir);
  const file = join(dataDir, 'picture.png');
  return {
    click: async (x, y) => {
      await execute('xdotool', clickOf(x, y), { env });
    },
    picture: async () => {
      await execute('scrot', ['-o', file], { env });
      return (await readFile(file)).length;
    },
  };
}

/** Returns the tools for the desktop in the container, as processes in it. */
export async function toolsIn(container: Dockerode.Container): Promise<DesktopTools> {
  await copyInto(container);
  const engine = new EngineExec(container);
  const env = `LD_LIBRARY_PATH=${FOLDER} IMLIB2_LOADER_PATH=${FOLDER}/loaders XAUTHORITY=/run/user/1000/Xauthority`;
  const shell = (line: string) => engine.run(['/bin/sh', '-c', `${env} ${line}`]);
  return {
    click: async (x, y) => {
      await shell(`exec ${FOLDER}/xdotool ${clickOf(x, y).join(' ')}`);
    },
    picture: () => shell(`${FOLDER}/scrot -o /tmp/picture.png && cat /tmp/picture.png`),
  };
}

/** Without the option, the program waits 100 ms after a click. */
function clickOf(x: number, y: number): string[] {
  return ['mousemove', String(x), String(y), 'click', '--delay', '0', '1'];
}

async function copyInto(container: Dockerode.Container): Promise<void> {
  const programs = ['/usr/bin/xdotool', '/usr/bin/scrot'];
  const { stdout } = await execute('ldd', programs);
  // The image has its own C library, from the same release of Debian.
  const libraries = new Set(
    [...stdout.matchAll(/=> (\/\S+)/g)].map(([, path]) => path ?? '').filter((path) => !/\/lib[cm]\.so/.test(path)),
  );
  const moves = ['^.*imlib2/loaders/,loaders/', '^.*/lib/x86_64-linux-gnu/\\([^/]*\\)$,\\1', '^/usr/bin/,', `^,${FOLDER.slice(1)}/`];
  const words = ['-chf', '-', '--absolute-names', ...moves.flatMap((move) => ['--transform', `s,${move},`])];
  const files = [...programs, ...libraries, join(LIBRARIES, 'imlib2/loaders/png.so')];
  const { stdout: tar } = await execute('tar', [...words, ...files], { encoding: 'buffer', maxBuffer: 64 * 1_048_576 });
  await container.putArchive(tar, { path: '/' });
}

/** Returns the variables of the X server that runs below the data folder. */
function environmentBelow(dataDir: string): Record<string, string> {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/comm`, 'utf8') !== 'Xtigervnc\n') continue;
      const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
      const found = Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
      const { DISPLAY = '', XAUTHORITY = '', PATH = '' } = found;
      if (Object.values(found).some((value) => value.startsWith(dataDir))) return { DISPLAY, XAUTHORITY, PATH };
    } catch {
      // It has ended meanwhile.
    }
  }
  throw new Error(`no desktop runs below ${dataDir}`);
}
