import { readFile } from 'node:fs/promises';

import type { TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';

/** An image whose program responds on the agent's port with published content. */
export const answering = {
  command: ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'],
  async files(content: string): Promise<TarEntry[]> {
    return [
      ...['bin', 'www', 'tmp', 'data'].map((name) => ({ name, type: 'directory' as const, mode: 0o755 })),
      { name: 'bin/busybox', type: 'file', mode: 0o755, content: await readFile('/bin/busybox') },
      { name: 'www/healthz', type: 'file', mode: 0o644, content },
    ];
  },
};
