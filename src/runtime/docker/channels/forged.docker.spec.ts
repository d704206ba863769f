import { randomUUID } from 'node:crypto';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { busyboxEntries } from '../../../../test/support/images.ts';
import { keptMemory } from '../../../../test/support/kept-memory.ts';
import { encodeFields, encodeFrame, FrameType } from '../../channel/frames.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { helperMount, helperVolumeName, labels, supervisorProgram, volumeName } from '../engine/names.ts';
import type { DockerRuntime } from '../docker-runtime.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { importImage } from '../image-sources/registry.ts';

const KEPT_BYTES_MAX = 16 * 1024 * 1024;
const hello = (version: string) => encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', version, '262144', '64']));
const frame = (type: FrameType, content: Buffer | string, output = 0, stream = 1) => {
  const bytes = encodeFrame(stream, type, Buffer.from(content));
  bytes[5] = output;
  return bytes;
};
const end = (...result: string[]) => frame(FrameType.end, encodeFields([Buffer.alloc(8), ...result]));
/** A shell line that prints the bytes. */
const printed = (...frames: Buffer[]) =>
  `printf '${Array.from(Buffer.concat(frames), (byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')}'`;

/** A shell line that greets and waits for the first call. */
const greeted = `${printed(hello('1'))}; head -c 30 >/dev/null`;

/**
 * The program that answers in place of the supervisor: the first process of its container runs, and each that is attached does what its
 * volume says.
 */
const impostor = '#!/bin/sh\n[ "$1" = init ] && exec sleep 300\n. /data/answer\n';

describe('a program that answers in place of the supervisor', () => {
  let bed: DockerFixture;
  let handle: string;
  let runtime: DockerRuntime;

  // Each has a channel of its own.
  beforeEach(() => (runtime = bed.another()));
  afterEach(() => runtime.close());
  beforeAll(async () => {
    bed = await DockerFixture.open();
    const entries = [
      ...(await busyboxEntries()),
      { name: helperMount.slice(1), type: 'directory' as const, mode: 0o755 },
      { name: supervisorProgram.slice(1), type: 'file' as const, mode: 0o755, content: impostor },
    ];
    const image = `mooring-test-${bed.instance}:impostor`;
    await importImage(bed.docker, tarOf(entries), image, ['ENV PATH=/bin'], timeoutSignal(60_000));
    bed.remember(image);
    const identity = { agentId: randomUUID(), generation: 1, deploymentId: randomUUID() };
    const helper = helperVolumeName(bed.instance.padEnd(16, '0'));
    const Mounts = [
      { Type: 'volume' as const, Source: helper, Target: helperMount },
      { Type: 'volume' as const, Source: volumeName(identity.agentId), Target: '/data' },
    ];
    for (const { Source } of Mounts) await bed.docker.createVolume({ Name: Source, Labels: { [labels.instance]: bed.instance } });
    const made = await bed.docker.createContainer({
      name: bed.identities.nameOf(identity),
      Image: image,
      Labels: bed.identities.labelsOf(identity),
      Entrypoint: [supervisorProgram, 'init'],
      HostConfig: { Mounts },
    });
    await made.start();
    handle = made.id;
  });
  afterAll(() => bed?.close());

  async function answers(line: string): Promise<void> {
    const container = bed.docker.getContainer(handle);
    await container.putArchive(tarOf([{ name: 'answer', type: 'file', mode: 0o644, content: line }]), { path: '/data' });
  }
  const exec = (timeoutMs = 2_000) => runtime.exec(handle, { argv: ['true'], timeoutMs, outputLimitBytes: 1_000 });
  const broken = async (work: Promise<unknown>) => {
    const error: Error = await work.then(
      () => new Error('nothing'),
      (thrown: Error) => thrown,
    );
    expect(error).toBeInstanceOf(RuntimeUnavailable);
    return String((error.cause as Error | undefined)?.message);
  };

  it.each([
    ['says what is no frame', 'echo "this is no frame at all"', 'a frame has no type'],
    ['says nothing and ends', ':', 'it ended'],
    ['prints without an end before it greets', 'yes', 'a frame has no type'],
    ['complains without an end', 'yes >&2', 'the supervisor printed too many errors'],
    ['prints without an end after it has greeted', `${printed(hello('1'))}; yes`, 'a frame has no type'],
    [
      'gives nothing as credit without an end',
      `${greeted}; while :; do ${printed(frame(FrameType.credit, Buffer.alloc(4)))}; done`,
      'a credit is zero',
    ],
    [
      'ends a call and goes on with it',
      printed(hello('1'), end('exit', '0', '0'), frame(FrameType.data, 'late', 1)),
      'a frame of an unknown stream arrived',
    ],
    [
      'answers a call that nobody made',
      `${printed(hello('1'), frame(FrameType.data, 'x', 1, 7))}; sleep 300`,
      'a frame of an unknown stream arrived',
    ],
    [
      'has an exit code that is none',
      `${greeted}; ${printed(end('exit', '1e9', '0'))}; sleep 300`,
      'unexpected response of the supervisor: exit 1e9',
    ],
  ])('and %s results in an error that says so, in bounded memory', async (_, line, sentence) => {
    await answers(line);
    const before = keptMemory();
    const said = await broken(exec());
    expect(said).toContain(sentence === 'a frame of an unknown stream arrived' && said.includes('it ended') ? 'it ended' : sentence);
    expect(keptMemory() - before).toBeLessThan(KEPT_BYTES_MAX);
  });

  it('and greets in another version, as one of another release, gets the sentence that says what to do', async () => {
    await answers(printed(hello('2')));
    await expect(exec()).rejects.toEqual(new RuntimeRefused('The container has a supervisor of another release: restart the agent.'));
  });

  it('and sends byte by byte is understood, and holds up nobody else', async () => {
    const slow = Buffer.concat([frame(FrameType.data, 'slow', 1), end('exit', '3', '0')]);
    const bytes = [...slow].map((byte) => printed(Buffer.of(byte))).join('; ');
    await answers(`${greeted}; ${bytes}; sleep 300`);
    const view = await bed.running();
    const [found, other] = await Promise.all([exec(20_000), bed.output(view, 'echo quick')]);
    expect(found).toMatchObject({ exitCode: 3 });
    expect(found.stdout.toString()).toBe('slow');
    expect(other).toBe('quick\n');
    await bed.runtime.remove(view.handle);
  });

  it('and answers with a size that is none gets an error', async () => {
    const answer = (...fields: string[]) => `${greeted}; ${printed(frame(FrameType.head, encodeFields(fields)), end('ok'))}; sleep 300`;
    const read = () => runtime.files.read(handle, 'a', { maxBytes: null, signal: timeoutSignal(5_000) });
    await answers(answer('file', '/data/a', 'NaN', '1'));
    await expect(read()).rejects.toThrow(RuntimeUnavailable);
  });
});
