import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { digestOfPin, parseImageReference } from '../../../kernel/network/image-reference.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import type { RegistryCredential } from '../../registry-credential.ts';
import { call, CALL_TIMEOUT_MS, jsonLines, portErrors, statusOf } from '../engine/engine.ts';
import { type PullBounds, watchDisk } from './pull-bounds.ts';
import { type Progress, PullProgress } from './pull-progress.ts';

/**
 * The longest time in which a pull makes no progress, in ms. The engine reports each half mebibyte of a layer, or each hundredth of a
 * smaller layer, so the pull from a registry that sends less than 5 KB/s is aborted.
 */
const PULL_SILENCE_MS = 120_000;

/** Throws `RuntimeRefused` unless the text is an image reference of at most 255 characters. */
export function checkReference(reference: string): void {
  if (parseImageReference(reference) === null)
    throw new RuntimeRefused('This is no image reference: it must read [registry/]name[:tag][@sha256:digest], in at most 255 characters.');
}

/** Returns the image if this engine has it, or null. */
export async function findImage(docker: Dockerode, reference: string): Promise<Dockerode.ImageInspectInfo | null> {
  try {
    return await call(null, (abortSignal) => docker.getImage(reference).inspect({ abortSignal } as Dockerode.ImageInspectOptions));
  } catch (error) {
    if (statusOf(error) === 404 || isBeingRemoved(error)) return null;
    throw error;
  }
}

/** Returns whether the engine was removing the image during the request: it then fails on a layer that is gone. */
const isBeingRemoved = (error: unknown): boolean => error instanceof RuntimeRefused && error.message === 'layer does not exist';

/**
 * Returns the pinned image if this engine has it, or null. An engine drops `name@digest` with the last tag of that name, but with
 * containerd's store the digest is also the image's id, by which it is found as long as its content exists.
 */
export async function findPinned(docker: Dockerode, pin: string): Promise<Dockerode.ImageInspectInfo | null> {
  const digest = digestOfPin(pin);
  return (await findImage(docker, pin)) ?? (digest === pin ? null : findImage(docker, digest));
}

/**
 * Reads the engine's progress and passes each step to `onStep`. Throws `RuntimeRefused` with the engine's message if it ends in an error.
 */
export async function follow(stream: NodeJS.ReadableStream, onStep: (step: Progress) => void): Promise<void> {
  for await (const step of jsonLines<Progress>(stream as AsyncIterable<Buffer>)) {
    if (step.error !== undefined) throw new RuntimeRefused((step.errorDetail?.message ?? step.error).trim());
    onStep(step);
  }
}

/** The engine's messages about failed pulls, and the messages that callers get for them. */
const pullRefusals: [RegExp, (reference: string) => string][] = [
  [
    /not found|manifest unknown|does not exist|access denied|unauthorized|denied:|no basic auth/i,
    (reference) =>
      `The image ${reference} was not found at its registry, or may not be had from it. A private one needs a source credential of the account. ` +
      'One that only the engine has is for the operator to share, with MOORING_SHARED_IMAGES.',
  ],
  [/toomanyrequests|429/i, (reference) => `The registry of ${reference} allows no more pulls for now.`],
  [/no space left/i, (reference) => `The engine has no space left for ${reference}.`],
  [/no matching manifest/i, (reference) => `The image ${reference} is not made for the engine's kind of machine.`],
  [
    /dial tcp|lookup |connection refused|no such host|timeout|deadline|x509|tls:|HTTP response to HTTPS|EOF/i,
    (reference) => `The registry of ${reference} could not be reached.`,
  ],
];

/**
 * Returns the message for the caller. The engine's own message may contain the response of a server that the caller can't reach directly.
 */
function pullRefusal(reference: string, said: string): string {
  const known = pullRefusals.find(([pattern]) => pattern.test(said));
  return known === undefined ? `The engine could not pull ${reference}.` : known[1](reference);
}

/** The timeouts of a pull. */
interface Patience {
  /** The longest wait for the registry's first response, in ms. */
  answerMs?: number;
  /** The longest time without any progress after that, in ms. */
  silenceMs?: number;
}

interface PullOptions extends Patience {
  credential?: RegistryCredential | null;
  bounds?: PullBounds;
}

/**
 * Pulls an image. The credential is passed to the engine for this pull only; the engine sends it to the image's registry and, if that names
 * one, to its token server. Logs the progress in a bounded number of lines. The registry must respond within 60 s, and later make progress
 * at least every `PULL_SILENCE_MS`. `bounds` limits the size, and the signal the time.
 */
export async function pull(
  docker: Dockerode,
  reference: string,
  log: (line: string) => void,
  signal: AbortSignal,
  { credential = null, answerMs = 60_000, silenceMs = PULL_SILENCE_MS, bounds }: PullOptions = {},
): Promise<void> {
  const silence = new AbortController();
  const giveUp = (message: string) => silence.abort(new RuntimeRefused(message));
  let timer = setTimeout(() => giveUp(`The registry did not answer within ${answerMs / 1_000} s.`), answerMs);
  const either = AbortSignal.any([signal, silence.signal]);
  const unwatch =
    bounds === undefined
      ? () => undefined
      : watchDisk(bounds.disk, () => giveUp(`The disk for images is nearly full, so ${reference} was not pulled.`));
  const isTagged = reference.includes('@') || reference.lastIndexOf(':') > reference.lastIndexOf('/');
  const tagged = isTagged ? reference : `${reference}:latest`;
  try {
    await portErrors(null, async () => {
      const stream = await docker.createImage(credential ?? undefined, { fromImage: tagged, abortSignal: either });
      const progress = new PullProgress(log);
      await follow(stream, (step) => {
        if (!progress.apply(step)) return;
        if (bounds !== undefined && progress.wantedBytes > bounds.maxBytes)
          giveUp(`The image ${reference} is too large: its layers have more than ${Math.floor(bounds.maxBytes / 1024 ** 2)} MiB.`);
        clearTimeout(timer);
        timer = setTimeout(() => giveUp(`The pull of ${reference} made no progress for ${silenceMs / 1_000} s.`), silenceMs);
      });
      progress.end();
    });
  } catch (error) {
    if (either.aborted) throw either.reason;
    throw error instanceof RuntimeRefused ? new RuntimeRefused(pullRefusal(reference, error.message), { cause: error }) : error;
  } finally {
    unwatch();
    clearTimeout(timer);
  }
}

/** Imports a root file system as an image; `changes` are Dockerfile instructions. */
export async function importImage(
  docker: Dockerode,
  tar: NodeJS.ReadableStream,
  name: string,
  changes: string[],
  signal: AbortSignal,
): Promise<void> {
  const [repo, tag] = name.split(':');
  const abortSignal = AbortSignal.any([signal, timeoutSignal(4 * CALL_TIMEOUT_MS)]);
  await portErrors(null, async () => {
    const stream = await docker.importImage(tar, { repo, tag, changes, abortSignal });
    await follow(stream, () => undefined);
  });
}
