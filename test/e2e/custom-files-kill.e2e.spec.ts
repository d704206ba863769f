import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** Kills the service while a custom script of a deployment runs. */

/** The time within which a restarted service settles the deployment, in milliseconds. */
const SETTLED_WITHIN_MS = 15_000;

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

it('is deployed with its scripts run anew in a new container, and nothing of the old one is left', async () => {
  const service = await StartedService.start({ runtime: 'local', environment: {} });
  try {
    const made = await service.call('POST', '/api/agents', { name: 'scripted', templateId: 'hello' }, { prefer: 'wait=60' });
    expect(made.status).toBe(201);
    const agent = `/api/v1/agents/${made.body.id as string}`;
    // The script waits at its first run only.
    const content =
      'echo $$ >> "$MOORING_VOLUME/pids"; if [ $(wc -l < "$MOORING_VOLUME/pids") -lt 2 ]; then sleep 600 & echo $! >> "$MOORING_VOLUME/pids"; wait; fi; echo over';
    expect((await service.call('POST', `${agent}/files`, { files: [{ path: 'slow.sh', content }] })).status).toBe(201);
    expect((await service.call('POST', `${agent}/deploy`)).status).toBe(202);
    const first = await until('the script runs', async () => {
      const pids = await pidsOf(service.dataDir);
      return pids.length >= 2 ? pids : undefined;
    });
    await service.kill();
    expect(first.filter(isAlive)).toHaveLength(2);
    await service.start();
    const settled = await until(
      'the deployment has ended',
      async () => {
        const { body } = await service.call('GET', agent);
        return body.status === 'deploying' ? undefined : body;
      },
      { timeoutMs: SETTLED_WITHIN_MS },
    );
    expect(settled).toMatchObject({ status: 'active' });
    // A killed process keeps its id until its parent, by now the system's first process, has taken note.
    await until('its processes are gone', () => (first.some(isAlive) ? undefined : true), { timeoutMs: SETTLED_WITHIN_MS });
    expect(await pidsOf(service.dataDir)).toHaveLength(3);
    const [record] = (await service.call<{ status: string; build_log: string }[]>('GET', `${agent}/deployments`)).body;
    expect(record).toMatchObject({ status: 'success' });
    expect(record?.build_log.match(/Running the custom script/g)).toHaveLength(2);
  } finally {
    await service.dispose();
  }
});

/** Returns the ids of the processes that the script has noted on the volume of the only agent that has such a note. */
async function pidsOf(dataDir: string): Promise<number[]> {
  const notes = (await readdir(dataDir, { recursive: true })).filter((path) => path.endsWith('/pids'));
  const texts = await Promise.all(notes.map((path) => readFile(join(dataDir, path), 'utf8')));
  return texts.join('').split('\n').filter(Boolean).map(Number);
}
