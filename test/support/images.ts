import { readFile } from 'node:fs/promises';
import Dockerode from 'dockerode';
import { tarOf, type TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';
import { ensureNodeBase } from '../../src/runtime/docker/image-sources/node-base.ts';
import { noRules } from '../../src/runtime/docker/networks/egress-rules.ts';
import { noLinkRules } from '../../src/runtime/docker/networks/link-rules.ts';
import { EgressImages } from '../../src/runtime/docker/networks/egress-images.ts';
import { Nft } from '../../src/runtime/docker/networks/nft.ts';
import { RuntimeRefused } from '../../src/runtime/runtime.errors.ts';
import { importImage } from '../../src/runtime/docker/image-sources/registry.ts';

const importMs = 60_000;

/**
 * Imports an image of this machine's own Node under the given name, as if from a registry. Its base image is kept: each machine builds it
 * once.
 */
export async function importNodeImage(docker: Dockerode, name = 'mooring-test-node:1'): Promise<string> {
  const [repo = '', tag] = name.split(':');
  await docker.getImage(await ensureNodeBase(docker, AbortSignal.timeout(importMs))).tag({ repo, tag });
  return name;
}

/**
 * Imports an image that contains only this machine's static busybox. `changes` are Dockerfile lines such as `CMD ["/bin/busybox", "sleep",
 * "60"]`.
 */
export async function importBusyboxImage(docker: Dockerode, name = 'mooring-test-busybox:1', changes: string[] = []): Promise<string> {
  await importImage(docker, tarOf(await busyboxEntries()), name, ['ENV PATH=/bin', ...changes], AbortSignal.timeout(importMs));
  return name;
}

/** Builds an image of this machine's own Node that runs the program. */
export async function importNodeProgram(docker: Dockerode, name: string, program: string): Promise<void> {
  const base = await ensureNodeBase(docker, AbortSignal.timeout(importMs));
  const container = await docker.createContainer({ Image: base, Cmd: ['true'] });
  try {
    await container.putArchive(tarOf([{ name: 'program.mjs', type: 'file', mode: 0o644, content: program }]), { path: '/' });
    const [repo, tag] = name.split(':');
    await container.commit({ repo, tag, changes: ['CMD ["node", "/program.mjs"]'] });
  } finally {
    await container.remove({ force: true });
  }
}

/** Returns the files of an image that contains only this machine's static busybox. */
export async function busyboxEntries(): Promise<TarEntry[]> {
  const program = await readFile('/bin/busybox');
  const applets = ['sh', 'sleep', 'cat', 'echo', 'ls', 'wget', 'httpd', 'id', 'yes', 'true'];
  return [
    ...['bin', 'etc', 'www'].map((folder) => ({ name: folder, type: 'directory' as const, mode: 0o755 })),
    { name: 'tmp', type: 'directory', mode: 0o1777 },
    { name: 'etc/passwd', type: 'file', mode: 0o644, content: 'root:x:0:0:root:/:/bin/sh\nagent:x:10001:10001:agent:/tmp:/bin/sh\n' },
    { name: 'bin/busybox', type: 'file', mode: 0o755, content: program },
    ...applets.map((applet) => ({ name: `bin/${applet}`, type: 'symlink' as const, mode: 0o777, linkname: 'busybox' })),
  ];
}

/** Removes everything with the instance's label, containers first, the rules of its networks, and the named images. */
export async function removeInstance(docker: Dockerode, instance: string, images: string[] = []): Promise<void> {
  await new Nft(docker, instance, new EgressImages(docker, null)).run(noRules(instance) + noLinkRules(instance)).catch(unlessRefused);
  const filters = JSON.stringify({ label: [`mooring.instance=${instance}`] });
  for (const { Id } of await docker.listContainers({ all: true, filters })) await docker.getContainer(Id).remove({ force: true, v: true });
  for (const { Name } of (await docker.listVolumes({ filters })).Volumes ?? []) await docker.getVolume(Name).remove();
  for (const { Id } of await docker.listNetworks({ filters })) await docker.getNetwork(Id).remove();
  await removeImages(docker, instance, filters);
  await removeImages(docker, instance, JSON.stringify({ reference: [`mooring-${instance}`] }));
  for (const name of images) await docker.getImage(name).remove({ force: true });
}

/**
 * Removes the images, in as many rounds as they are built on each other. Named images lose only the instance's own names: the engine may
 * have reused the same image for a build of another test, which still needs it.
 */
async function removeImages(docker: Dockerode, instance: string, filters: string): Promise<void> {
  for (let left = Infinity; ;) {
    const images = await docker.listImages({ filters });
    if (images.length === 0) return;
    if (images.length >= left) throw new Error(`${images.length} images can't be removed`);
    left = images.length;
    for (const { Id, RepoTags } of images) {
      const names = (RepoTags ?? []).filter((name) => name.startsWith(`mooring-${instance}:`));
      for (const name of names.length > 0 ? names : [Id]) await docker.getImage(name).remove({ force: true }).catch(unlessNeeded);
    }
  }
}

function unlessNeeded(error: unknown): void {
  if (![404, 409].includes((error as { statusCode?: number }).statusCode ?? 0)) throw error;
}

/** Without nft no rules were loaded, so a refusal is ignored. */
function unlessRefused(error: unknown): void {
  if (!(error instanceof RuntimeRefused)) throw error;
}
