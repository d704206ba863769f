import { readFile } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import { rootCertificates } from 'node:tls';
import type Dockerode from 'dockerode';
import { ReadShare } from '../../../kernel/limits/read-share.ts';
import { commandFailure, FailureReason, shownCommand } from '../../build-failure.ts';
import { variablesOfAgent, type BuildSettings, type ProjectPlan } from '../../project-plan.ts';
import { OutputLines } from '../../output-lines.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { filesInto } from '../engine/archive.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { call, portErrors } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { labels } from '../engine/names.ts';
import { attachInput, removeUntilGone } from '../engine/own-containers.ts';

const PIDS_MAX = 1_024;
/** The bytes of output of builds that one process reads in a second, of which one build may have a quarter, and those that it reads at a time. */
const READ_BYTES = { perSecond: 8 * 1024 * 1024, atATime: 64 * 1024 };
const reading = new ReadShare(READ_BYTES);
const CA_BYTES_MAX = 4 * 1024 * 1024;
const trusted = { folder: '/tmp', more: 'mooring-more.pem', all: 'mooring-all.pem' };
/** The program that keeps a build's container running. It ends with its input, which ends with this process. */
const waiting = {
  node: ['node', '-e', 'process.stdin.resume()'],
  python: ['python3', '-c', 'import sys; sys.stdin.buffer.read()'],
};

export interface BuildStep {
  /** The id or name of the image that the commands run in. */
  image: string;
  language: ProjectPlan['language'];
  /** In exec form, one after the other. The first that fails ends the step. */
  commands: string[][];
  settings: BuildSettings;
  /** The name of the image that comes of it, and lines of a Dockerfile that change its configuration. */
  name: string;
  changes: string[];
}

export interface BuildPlace {
  docker: Dockerode;
  instance: string;
  memoryBytes: number;
  /** The name of the network, which exists. */
  network: string;
}

/**
 * Runs the commands in a container of their own, without rights and on the network of builds, and keeps their files as an image. The operator's
 * settings are given to each command and not to the container, and what it writes below /tmp is not kept, so that nothing of them is in the
 * image, its history or its configuration. The container goes with this process. Throws `RuntimeRefused` with the command that failed.
 */
export async function runBuildStep(place: BuildPlace, step: BuildStep, log: (line: string) => void, signal: AbortSignal): Promise<void> {
  const { docker } = place;
  const container = await call(null, (abortSignal) => docker.createContainer({ ...options(place, step), abortSignal }));
  let input: Duplex | null = null;
  try {
    input = await attachInput(container);
    // The engine writes files only into a container in which nothing has run.
    const environment = { ...variablesOfAgent(step.settings), ...step.settings.variables, ...(await trust(container, step.settings)) };
    await call(container.id, (abortSignal) => container.start({ abortSignal }));
    for (const command of step.commands) await runCommand(container, command, environment, log, signal);
    signal.throwIfAborted();
    const [repo, tag] = step.name.split(':');
    await portErrors(null, () => container.commit({ repo, tag, changes: step.changes, abortSignal: signal }));
  } finally {
    input?.destroy();
    // The engine keeps an image as long as a container of it exists.
    await removeUntilGone(container);
  }
}

function options({ instance, memoryBytes, network }: BuildPlace, { image, language }: BuildStep): Dockerode.ContainerCreateOptions {
  return {
    Image: image,
    Entrypoint: waiting[language],
    Cmd: [],
    OpenStdin: true,
    StdinOnce: true,
    Labels: { [labels.instance]: instance },
    HostConfig: {
      AutoRemove: true,
      NetworkMode: network,
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      PidsLimit: PIDS_MAX,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      // The volume has no name, so the engine removes it with the container. Nothing in it becomes a part of the image.
      Mounts: [{ Type: 'volume', Source: '', Target: trusted.folder }],
    },
  };
}

/** Puts the operator's certificates where the commands find them, and returns the variables by which the usual programs are told of them. */
async function trust(container: Dockerode.Container, { caFile }: BuildSettings): Promise<Record<string, string>> {
  if (caFile === null) return {};
  const more = await readFile(caFile, 'utf8').catch(() => null);
  if (more === null || more.length > CA_BYTES_MAX)
    throw new RuntimeRefused('The certificates for builds can’t be read (MOORING_BUILD_CA_FILE).');
  const file = (name: string, content: string) => ({ name, type: 'file' as const, mode: 0o644, content });
  const tar = tarOf([file(trusted.more, more), file(trusted.all, [...rootCertificates, more].join('\n'))]);
  await filesInto(container, trusted.folder, tar);
  const all = `${trusted.folder}/${trusted.all}`;
  return {
    NODE_EXTRA_CA_CERTS: `${trusted.folder}/${trusted.more}`,
    SSL_CERT_FILE: all,
    PIP_CERT: all,
    REQUESTS_CA_BUNDLE: all,
    CURL_CA_BUNDLE: all,
    GIT_SSL_CAINFO: all,
  };
}

async function runCommand(
  container: Dockerode.Container,
  command: string[],
  environment: Record<string, string>,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  log(`Running ${shownCommand(command)}`);
  const exec = await call(container.id, (abortSignal) =>
    container.exec({
      Cmd: command,
      AttachStdout: true,
      AttachStderr: true,
      Env: Object.entries(environment).map(([name, value]) => `${name}=${value}`),
      abortSignal,
    }),
  );
  const source = await call(container.id, (abortSignal) => exec.start({ hijack: false, stdin: false, abortSignal }));
  const stop = () => source.destroy();
  signal.addEventListener('abort', stop, { once: true });
  const reason = new FailureReason();
  const take = (line: string) => {
    if (line === '') return;
    reason.push(line);
    log(line);
  };
  const lines = { stdout: new OutputLines(take), stderr: new OutputLines(take) };
  try {
    if (signal.aborted) stop();
    const pace = reading.reader(container.id, signal);
    for await (const { stream, payload } of frames(source)) {
      lines[stream].push(payload);
      await pace(payload.length);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    Object.values(lines).forEach((each) => each.end());
    signal.removeEventListener('abort', stop);
  }
  signal.throwIfAborted();
  const { ExitCode } = await call(container.id, (abortSignal) => exec.inspect({ abortSignal } as object));
  if (ExitCode !== 0) throw new RuntimeRefused(commandFailure(command, ExitCode, reason.text));
}
