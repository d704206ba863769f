import { readFile } from 'node:fs/promises';

import { importImage, findImage, pull } from '../../src/runtime/docker/image-sources/registry.ts';
import { tarOf, type TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';
import { isStatic } from '../../src/runtime/docker/volumes/helper-volume.ts';
import type { Engine } from './engine.ts';

const publicBase = 'busybox:1.37.0-musl';
const machinePaths = ['/bin/busybox', '/usr/bin/busybox'];
const architectures: Record<string, string> = { x64: 'amd64', ia32: '386' };
const LOAD_TIMEOUT_MS = 120_000;

/** The agent's program: one process for each connection responds to every request with the content of a file. */
const answer = `#!/bin/busybox sh
read -r method path protocol
length=0
while read -r line; do
  line=\${line%?}
  [ -z "$line" ] && break
  case "$line" in [Cc]ontent-[Ll]ength:*) length=\${line#*:} ;; esac
done
[ "$length" -gt 0 ] && /bin/busybox head -c "$length" >/dev/null
body="{\\"response\\":\\"$(/bin/busybox cat /agent/version)\\"}"
printf 'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n%s' "\${#body}" "$body"
`;

/** Returns the command of a server that responds to every request on the port. */
export const serverOn = (port: number): string[] => ['/bin/busybox', 'nc', '-ll', '-p', String(port), '-e', '/agent/answer'];

/** The port of agents. */
export const AGENT_PORT = 8080;

/** Builds images of small agents, from this machine's own busybox or from one of a registry. */
export class WalkImages {
  constructor(private readonly engine: Engine) {}

  /** The repository of the agents' images, which the operator shares with every account. */
  get repository(): string {
    return `mooring-check-${this.engine.suffix}`;
  }

  get base(): string {
    return `${this.repository}-base:1`;
  }

  /** Builds the base of all other images. */
  async ensureBase(): Promise<void> {
    const { docker } = this.engine;
    const signal = AbortSignal.timeout(LOAD_TIMEOUT_MS);
    const entries = await this.baseEntries();
    if (entries !== null) {
      await importImage(docker, tarOf(entries), this.base, ['ENV PATH=/bin'], signal);
      return;
    }
    if ((await findImage(docker, publicBase)) === null) await pull(docker, publicBase, () => undefined, signal);
    const [repo = '', tag = ''] = this.base.split(':');
    await docker.getImage(publicBase).tag({ repo, tag });
  }

  /** Builds an image whose agent responds with the text, and assigns the tag. An existing tag moves to it. Returns the image's name. */
  async make(tag: string, text: string): Promise<string> {
    const { docker } = this.engine;
    const command = JSON.stringify(serverOn(AGENT_PORT));
    const container = await docker.createContainer({ Image: this.base, Cmd: ['/bin/busybox', 'true'] });
    try {
      await container.putArchive(tarOf(programEntries(text)), { path: '/' });
      const { Id } = (await container.commit({ repo: this.repository, tag, changes: ['ENTRYPOINT []', `CMD ${command}`] })) as {
        Id: string;
      };
      this.engine.made.push(Id);
    } finally {
      await container.remove({ force: true });
    }
    return `${this.repository}:${tag}`;
  }

  /** Returns all files of an agent that responds with the text; null if this machine has no program that the engine could run. */
  async filesOf(text: string): Promise<TarEntry[] | null> {
    const entries = await this.baseEntries();
    return entries === null ? null : [...entries, ...programEntries(text)];
  }

  private async baseEntries(): Promise<TarEntry[] | null> {
    const program = await this.machineProgram();
    if (program === null) return null;
    return [
      ...['bin', 'etc'].map((name) => ({ name, type: 'directory' as const, mode: 0o755 })),
      { name: 'tmp', type: 'directory', mode: 0o1777 },
      { name: 'bin/busybox', type: 'file', mode: 0o755, content: program },
      { name: 'bin/sh', type: 'symlink', mode: 0o777, linkname: 'busybox' },
    ];
  }

  /** Returns this machine's static busybox; null if it has none, or the engine's containers can't run it. */
  private async machineProgram(): Promise<Buffer | null> {
    const { version } = await this.engine.describe();
    if (process.platform !== version.Os || (architectures[process.arch] ?? process.arch) !== version.Arch) return null;
    for (const path of machinePaths) {
      const program = await readFile(path).catch(() => null);
      if (program !== null && isStatic(program)) return program;
    }
    return null;
  }
}

/** Returns the files of an agent that responds with the text. */
function programEntries(text: string): TarEntry[] {
  return [
    { name: 'agent', type: 'directory', mode: 0o755 },
    { name: 'agent/answer', type: 'file', mode: 0o755, content: answer },
    { name: 'agent/version', type: 'file', mode: 0o644, content: text },
  ];
}
