import { parseImageReference, canonicalRepository } from '../../../kernel/network/image-reference.ts';
import type { BaseLayout } from './base-layouts.ts';
import { BUSYBOX, CACHE_FOLDER, POLICY_FILE, SOCKET } from './builder-start.ts';

/** The folders of the running build, of which an account's builder has one at a time, and of the last build's layers. */
export const WORK_FOLDER = `${CACHE_FOLDER}/work`;
const CONTEXT_FOLDER = `${WORK_FOLDER}/context`;
const RESULT_FOLDER = `${WORK_FOLDER}/result`;
export const LAYERS_FOLDER = `${RESULT_FOLDER}/blobs/sha256`;
const LAST_FOLDER = `${CACHE_FOLDER}/last`;
const METADATA_FILE = `${WORK_FOLDER}/metadata.json`;

/** Keeps the layers of the last build, removes everything else of it, and unpacks the context of the next one. */
export const beginBuild = `
b rm -rf ${LAST_FOLDER} && b mkdir -p ${LAYERS_FOLDER} && b mv ${LAYERS_FOLDER} ${LAST_FOLDER} && b rm -rf ${WORK_FOLDER} &&
  b mkdir -p ${CONTEXT_FOLDER} && b tar -x -C ${CONTEXT_FOLDER}
`;

/** Adds busybox to the context. */
export const addBusybox = `b cp ${BUSYBOX} ${CONTEXT_FOLDER}/busybox`;

/**
 * Builds, and prints the image's manifest and its configuration, one line each. Layers of the bases and of the last build are linked first,
 * so that BuildKit does not send them. The parameters are the number of bases, their folders, and the command.
 */
export const runBuild = `
b mkdir -p ${LAYERS_FOLDER} || exit 1
count=$1; shift
while [ "$count" -gt 0 ]; do b ln "$1"/blobs/sha256/* ${LAYERS_FOLDER}/ 2>/dev/null; shift; count=$((count - 1)); done
b ln ${LAST_FOLDER}/* ${LAYERS_FOLDER}/ 2>/dev/null
"$@" || exit $?
digest() { b sed -n "s/.*\\"$1\\": \\"sha256:\\([0-9a-f]*\\)\\".*/\\1/p" ${METADATA_FILE}; }
cd ${LAYERS_FOLDER} && b cat "$(digest containerimage.digest)" | b tr -d '\\n' && echo && b cat "$(digest containerimage.config.digest)" | b tr -d '\\n' && echo
`;

export interface Wanted {
  dockerfile: string;
  /** The images that the Dockerfile references, by the references in it. */
  bases: readonly { reference: string; layout: BaseLayout }[];
  labels: Readonly<Record<string, string>>;
  /** The values of the Dockerfile's arguments. */
  args?: Readonly<Record<string, string>>;
  /** The secrets that its steps may mount, by their ids. */
  secrets?: Readonly<Record<string, string>>;
  /** The value is true if every step runs, whatever the cache contains. */
  isFresh?: boolean;
}

/**
 * Returns the command of a build. With `cmdline` BuildKit uses its own Dockerfile frontend, whatever the file says. The policy prevents it
 * from fetching anything.
 */
export function buildCommand({ dockerfile, bases, labels, args = {}, secrets = {}, isFresh = false }: Wanted): string[] {
  const options = [
    `filename=${dockerfile}`,
    'cmdline=built-in',
    ...bases.map(({ reference, layout }, at) => `context:${contextName(reference)}=oci-layout://base${at}@${layout.digest}`),
    ...Object.entries(labels).map(([name, value]) => `label:${name}=${value}`),
    ...Object.entries(args).map(([name, value]) => `build-arg:${name}=${value}`),
  ];
  return [
    'buildctl',
    '--addr',
    SOCKET,
    'build',
    '--frontend',
    'dockerfile.v0',
    '--progress',
    'rawjson',
    '--source-policy-file',
    POLICY_FILE,
    '--metadata-file',
    METADATA_FILE,
    '--local',
    `context=${CONTEXT_FOLDER}`,
    '--local',
    `dockerfile=${CONTEXT_FOLDER}`,
    ...bases.flatMap(({ layout }, at) => ['--oci-layout', `base${at}=${layout.folder}`]),
    ...options.flatMap((option) => ['--opt', option]),
    ...Object.keys(secrets).flatMap((id, at) => ['--secret', `id=${id},env=${secretVariable(at)}`]),
    ...(isFresh ? ['--no-cache'] : []),
    '--output',
    `type=oci,tar=false,compression=uncompressed,dest=${RESULT_FOLDER}`,
  ];
}

/** Returns the variables that the command of a build needs for its secrets. They are in no file, and not among the words of the command. */
export function secretVariables({ secrets = {} }: Wanted): Record<string, string> {
  return Object.fromEntries(Object.values(secrets).map((value, at) => [secretVariable(at), value]));
}

const secretVariable = (at: number) => `MOORING_SECRET_${at}`;

/**
 * Returns the name in the spelling in which BuildKit looks up a named context: without the default registry, and without the tag `latest`.
 */
export function contextName(reference: string): string {
  const parsed = parseImageReference(reference);
  if (parsed === null) return reference;
  const repository = canonicalRepository(parsed).replace(/^docker\.io\/(library\/(?=[^/]+$))?/, '');
  const { tag, digest } = parsed;
  const tagged = tag === null || (tag === 'latest' && digest === null) ? repository : `${repository}:${tag}`;
  return digest === null ? tagged : `${tagged}@${digest}`;
}
