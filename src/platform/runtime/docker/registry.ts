import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../runtime.ts';
import { call, callTimeoutMs, jsonLines, portErrors, statusOf } from './engine.ts';

/** One step of a pull, a build or an import, as the engine tells it. */
export interface Progress {
  stream?: string;
  status?: string;
  id?: string;
  progressDetail?: { total?: number };
  error?: string;
  errorDetail?: { message?: string };
  aux?: { ID?: string };
}

const host =
  '(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\\[[0-9a-fA-F:]+\\])(?::[0-9]{1,5})?';
const part = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const digest = 'sha256:[0-9a-f]{64}';
const grammar = new RegExp(`^(?:${digest}|(?:${host}/)?${part}(?:/${part})*(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(?:@${digest})?)$`);

/** Throws `RuntimeRefused` on what is no image reference of at most 255 characters. */
export function checkReference(reference: string): void {
  if (reference.length > 255 || !grammar.test(reference))
    throw new RuntimeRefused('This is no image reference: it must read [registry/]name[:tag][@sha256:digest], in at most 255 characters.');
}

/** The image as this engine has it, or null. */
export async function findImage(docker: Dockerode, reference: string): Promise<Dockerode.ImageInspectInfo | null> {
  try {
    return await call(null, (abortSignal) => docker.getImage(reference).inspect({ abortSignal } as Dockerode.ImageInspectOptions));
  } catch (error) {
    if (statusOf(error) === 404) return null;
    throw error;
  }
}

/** The engine's progress, each step to `onStep`. Throws `RuntimeRefused` with the engine's words where it ends in an error. */
export async function follow(stream: NodeJS.ReadableStream, onStep: (step: Progress) => void): Promise<void> {
  for await (const step of jsonLines<Progress>(stream as AsyncIterable<Buffer>)) {
    if (step.error !== undefined) throw new RuntimeRefused((step.errorDetail?.message ?? step.error).trim());
    onStep(step);
  }
}

/**
 * Pulls an image, without credentials; a line for each step, none for the bytes in between. The registry must answer within `answerMs`;
 * the whole is bounded by the signal alone.
 */
export async function pull(
  docker: Dockerode,
  reference: string,
  log: (line: string) => void,
  signal: AbortSignal,
  answerMs = 60_000,
): Promise<void> {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new RuntimeRefused(`The registry did not answer within ${answerMs / 1_000} s.`)), answerMs);
  const either = AbortSignal.any([signal, silence.signal]);
  const tagged = /@|:[^/]*$/.test(reference) ? reference : `${reference}:latest`;
  try {
    await portErrors(null, async () => {
      const stream = await docker.createImage({ fromImage: tagged, abortSignal: either });
      await follow(stream, ({ status, id, progressDetail }) => {
        clearTimeout(timer);
        if (status !== undefined && progressDetail?.total === undefined) log(id === undefined ? status : `${id}: ${status}`);
      });
    });
  } catch (error) {
    throw either.aborted ? either.reason : error;
  } finally {
    clearTimeout(timer);
  }
}

/** Imports a root file system as an image: `changes` are Dockerfile lines. */
export async function importImage(
  docker: Dockerode,
  tar: NodeJS.ReadableStream,
  name: string,
  changes: string[],
  signal: AbortSignal,
): Promise<void> {
  const [repo, tag] = name.split(':');
  const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(4 * callTimeoutMs)]);
  await portErrors(null, async () => {
    const stream = await docker.importImage(tar, { repo, tag, changes, abortSignal });
    await follow(stream, () => undefined);
  });
}
