import type { Readable } from 'node:stream';
import type Dockerode from 'dockerode';

import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { portErrors } from '../engine/engine.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { partsOf, PARTS } from './base-archive.ts';
import { runInBuilder, shellCommand, type InsideBuilder } from './builder-exec.ts';
import { CACHE_FOLDER } from './builder-start.ts';

/** The folder of an account's last base images, as OCI layouts by image id. */
export const BASES_FOLDER = `${CACHE_FOLDER}/bases`;
const BASES_KEPT = 12;

/** Shortens the list of kept layouts, and prints the digest of the manifest for each wanted layout, or an empty line. */
const found = `
kept=$1; shift
b mkdir -p ${BASES_FOLDER} && cd ${BASES_FOLDER} || exit 1
for key; do
  if [ -e "$key/digest" ]; then b touch "$key"; b cat "$key/digest"; fi
  echo
done
b ls -t | b tail -n "+$kept" | while read -r old; do b rm -rf "./$old"; done
`;
const begin = `b rm -rf "$1" && b mkdir -p "$1" && b tar -x -C "$1"`;
/** The last move makes the layout complete atomically. */
const finish = `
draft=$1 final=$2
cd "$draft" && b tar -x || exit 1
while read -r number digest; do [ -e "blobs/sha256/$digest" ] || b mv "${PARTS}/$number" "blobs/sha256/$digest" || exit 1; done <moves
b rm -rf ${PARTS} moves "$final" && b mv "$draft" "$final"
`;

/** An image in the cache of an account. */
export interface BaseLayout {
  folder: string;
  /** The digest of its manifest, with its algorithm. */
  digest: string;
}

/** Copies the base images of a Dockerfile into a builder's cache, each once. */
export class BaseLayouts {
  constructor(private readonly docker: Dockerode) {}

  /** Returns the layouts of the images by their ids. */
  async ensure(inside: InsideBuilder, ids: readonly string[], signal: AbortSignal): Promise<Map<string, BaseLayout>> {
    const keys = ids.map((id) => id.replace('sha256:', ''));
    const listed = await runInBuilder(inside, shellCommand(found, String(Math.max(BASES_KEPT, ids.length) + 1), ...keys));
    if (listed.exitCode !== 0) throw failed('listed', listed.said);
    const digests = listed.output.toString('utf8').split('\n');
    const layouts = new Map<string, BaseLayout>();
    for (const [at, id] of ids.entries()) {
      signal.throwIfAborted();
      const folder = `${BASES_FOLDER}/${keys[at]}`;
      const known = /^[0-9a-f]{64}$/.exec(digests[at] ?? '')?.[0];
      const digest = known ?? (await this.transfer(inside, id, folder));
      layouts.set(id, { folder, digest: `sha256:${digest}` });
    }
    return layouts;
  }

  private async transfer(inside: InsideBuilder, id: string, final: string): Promise<string> {
    const draft = `${final}.draft`;
    const archive = (await portErrors(null, () => this.docker.getImage(id).get())) as Readable;
    const { parts, layout } = partsOf(archive);
    layout.catch(() => undefined);
    const begun = await runInBuilder(inside, shellCommand(begin, draft), parts);
    if (begun.exitCode !== 0) throw failed('copied', begun.said);
    const { digest, entries, moves } = await layout;
    const text = (name: string, content: string) => ({ name, type: 'file' as const, mode: 0o644, content });
    const lines = moves.map((move) => `${move.number} ${move.digest}\n`).join('');
    const tar = tarOf([...entries, text('digest', digest), text('moves', lines)]);
    const finished = await runInBuilder(inside, shellCommand(finish, draft, final), tar);
    if (finished.exitCode !== 0) throw failed('completed', finished.said);
    return digest;
  }
}

function failed(what: string, said: string): Error {
  if (/No space left/i.test(said)) return new RuntimeRefused('The engine’s machine has no space left for the images of a build.');
  return new RuntimeUnavailable(new Error(`the images of a build could not be ${what}: ${said}`));
}
