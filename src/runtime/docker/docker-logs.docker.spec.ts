import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ClientRequest, IncomingMessage } from 'node:http';

import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { untilTrue } from '../../../test/support/until.ts';
import type { LogCursor, LogLine } from '../runtime.ts';
import { RuntimeUnavailable } from '../runtime.errors.ts';

/** A flood that fills more than all three log files of 10 MB that the engine keeps of a container. */
const FLOOD = `yes ${'y'.repeat(99)} | head -c 40000000`;

describe('the output of a container on Docker', () => {
  let bed: DockerFixture;
  beforeAll(async () => {
    bed = await DockerFixture.open();
  });
  afterAll(() => bed.close());

  it('is followed further after a flood, during which the engine rotated its log files', async () => {
    const command = ['/bin/busybox', 'sh', '-c', `${FLOOD}; touch /over; sleep 5; echo after the flood; exec sleep 600`];
    const view = await bed.running({ command });
    const over = new AbortController();
    const exists = async (path: string) => (await bed.run(view, `test -e ${path}`)).exitCode === 0;
    let last = null as LogLine | null;
    // An engine may also fail or end the response when it has lost a file, and whoever captures the output then reads on from its last
    // line.
    // It may repeat lines when it rotates, so others may stand behind the awaited one.
    while (!over.signal.aborted)
      try {
        for await (const line of bed.runtime.logs(view.handle, last?.cursor ?? null, over.signal)) {
          // A reader that is behind is what an engine loses most easily.
          if (last === null) await untilTrue(() => exists('/over'));
          last = line;
          if (line.text === 'after the flood') over.abort();
        }
      } catch (error) {
        if (!(error instanceof RuntimeUnavailable)) throw error;
      }
  });

  it('continues in a container that replaced a removed one, and nothing is marked as lost', async () => {
    const spec = bed.spec({ command: ['/bin/busybox', 'sh', '-c', 'echo one; echo two'] });
    const linesOf = async (from: LogCursor | null) => {
      const { handle } = await bed.running(spec);
      await bed.docker.getContainer(handle).wait();
      const lines: LogLine[] = [];
      for await (const line of bed.runtime.logs(handle, from, new AbortController().signal)) lines.push(line);
      await bed.runtime.remove(handle);
      return lines;
    };
    const first = await linesOf(null);
    expect((await linesOf(first.at(-1)?.cursor ?? null)).map(({ text }) => text)).toEqual(['one', 'two']);
  });

  it('is closed when its reader leaves', async () => {
    const view = await bed.running({ command: ['/bin/busybox', 'sh', '-c', 'while echo line; do sleep 0.1; done'] });
    let closed = 0;
    const onResponse = (message: unknown) => {
      const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
      if (request.path.includes(`/${view.handle}/logs`)) response.on('close', () => (closed += 1));
    };
    subscribe('http.client.response.finish', onResponse);
    try {
      for await (const { text } of bed.runtime.logs(view.handle, null, new AbortController().signal)) if (text === 'line') break;
      await untilTrue(() => closed === 1);
    } finally {
      unsubscribe('http.client.response.finish', onResponse);
    }
  });
});
