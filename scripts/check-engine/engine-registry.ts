import { randomInt } from 'node:crypto';
import type Dockerode from 'dockerode';

import { tarOf, type TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';
import { RegistryContent } from '../../test/support/registry-content.ts';
import type { Engine } from './engine.ts';
import type { WalkImages } from './walk-images.ts';

const LOWEST_PORT = 32_000;
const HIGHEST_PORT = 34_000;
const REPOSITORY = 'team/agent';
const folder = 'registry';

/** The registry's program: one process for each connection sends a file and its content type, as far as a pull needs that. */
const program = `#!/bin/busybox sh
read -r method path protocol
while read -r line; do
  line=\${line%?}
  [ -z "$line" ] && break
done
file=/${folder}/\${path##*/}
status='200 OK'
if [ "$path" = /v2/ ]; then file=/${folder}/root
elif [ ! -f "$file.type" ]; then status='404 Not Found'; file=/${folder}/none
fi
printf 'HTTP/1.1 %s\\r\\nContent-Type: %s\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n' \\
  "$status" "$(/bin/busybox cat "$file.type")" "$(/bin/busybox stat -c %s "$file")"
[ "$method" = HEAD ] || /bin/busybox cat "$file"
`;

/**
 * A registry in a container on the network of the engine's host: the engine can reach it wherever it runs, and allows plain HTTP on its
 * loopback.
 */
export class EngineRegistry {
  private readonly content = new RegistryContent();

  private constructor(
    private readonly container: Dockerode.Container,
    /** The host with its port, as image references name it. */
    private readonly host: string,
  ) {}

  static async start(engine: Engine, images: WalkImages): Promise<EngineRegistry> {
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT);
    const files: TarEntry[] = [
      { name: folder, type: 'directory', mode: 0o755 },
      { name: `${folder}/answer`, type: 'file', mode: 0o755, content: program },
      ...filesOf('root', 'application/json', '{}'),
      ...filesOf('none', 'application/json', '{"errors":[{"code":"NOT_FOUND"}]}'),
    ];
    const host = `127.0.0.1:${port}`;
    engine.own.push(`${host}/`);
    const command = ['/bin/busybox', 'nc', '-ll', '-p', String(port), '-e', `/${folder}/answer`];
    return new EngineRegistry(await engine.keepOnHost(images.base, command, files), host);
  }

  /** Adds an image with these files in its only layer. Returns a reference to it. */
  async publish(tag: string, files: TarEntry[], command: string[]): Promise<string> {
    const names = await this.content.publish(tag, files, command);
    const blobs = names.flatMap((name) => {
      const blob = this.content.blobs.get(name);
      return blob === undefined ? [] : filesOf(name, blob.type, blob.content);
    });
    await this.container.putArchive(tarOf(blobs), { path: '/' });
    return `${this.host}/${REPOSITORY}:${tag}`;
  }

  async close(): Promise<void> {
    await this.container.remove({ force: true, v: true });
  }
}

/** Returns the file that is sent, and the file with its content type. */
const filesOf = (name: string, type: string, content: string | Buffer): TarEntry[] => [
  { name: `${folder}/${name}`, type: 'file', mode: 0o644, content },
  { name: `${folder}/${name}.type`, type: 'file', mode: 0o644, content: type },
];
