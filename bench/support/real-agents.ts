import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import Dockerode from 'dockerode';

import { tarOf } from '../../src/runtime/docker/image-sources/build-context.ts';
import { importImage } from '../../src/runtime/docker/image-sources/registry.ts';
import { removeInstance } from '../../test/support/images.ts';

export const REAL_IMAGE = 'mooring-bench-agent:1';
const IMPORT_MS = 60_000;

/** The source of an agent that serves one caller after the other and answers everything alike: health checks and messages. */
const source = `
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
int main(void) {
  static char asked[65536];
  const char *port = getenv("PORT"), *said = "HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: 20\\r\\n"
    "connection: close\\r\\n\\r\\n{\\"response\\":\\"heard\\"}";
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = INADDR_ANY, .sin_port = htons(port ? atoi(port) : 8080) };
  int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  signal(SIGTERM, end);
  signal(SIGPIPE, SIG_IGN);
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 64)) return 1;
  for (;;) {
    int caller = accept(listening, 0, 0);
    if (caller < 0) continue;
    long have = 0, wanted = -1;
    while (have < (long)sizeof asked - 1) {
      long got = read(caller, asked + have, sizeof asked - 1 - have);
      if (got <= 0) break;
      have += got;
      asked[have] = 0;
      char *body = strstr(asked, "\\r\\n\\r\\n"), *length = strcasestr(asked, "content-length:");
      if (!body) continue;
      wanted = body + 4 - asked + (length && length < body ? atol(length + 15) : 0);
      if (have >= wanted) break;
    }
    if (wanted >= 0 && write(caller, said, strlen(said)) < 0) {}
    shutdown(caller, SHUT_WR);
    close(caller);
  }
}
`;

/** Makes the image of a tiny static program with the machine's C compiler; returns false if there is no compiler. */
export async function makeRealImage(): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'mooring-bench-agent-'));
  try {
    await writeFile(join(folder, 'agent.c'), source);
    const run = promisify(execFile);
    const flags = ['-D_GNU_SOURCE', '-Os', '-static', '-s', '-o', join(folder, 'agent'), join(folder, 'agent.c')];
    const compiled = await run('cc', flags).then(
      () => true,
      () => false,
    );
    if (!compiled) return false;
    const tar = tarOf([
      { name: 'tmp', type: 'directory', mode: 0o1777 },
      { name: 'agent', type: 'file', mode: 0o755, content: await readFile(join(folder, 'agent')) },
    ]);
    await importImage(new Dockerode(), tar, REAL_IMAGE, ['ENTRYPOINT ["/agent"]'], AbortSignal.timeout(IMPORT_MS));
    return true;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Removes everything of an instance from the real engine, several containers concurrently. */
export async function removeReal(instance: string): Promise<void> {
  const docker = new Dockerode();
  const filters = JSON.stringify({ label: [`mooring.instance=${instance}`] });
  const found = await docker.listContainers({ all: true, filters });
  const lane = async () => {
    for (let next = found.pop(); next !== undefined; next = found.pop())
      await docker.getContainer(next.Id).remove({ force: true, v: true });
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  await removeInstance(docker, instance);
}

export async function removeRealImage(): Promise<void> {
  await new Dockerode()
    .getImage(REAL_IMAGE)
    .remove({ force: true })
    .catch(() => undefined);
}
