import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { runOperation as tool } from '../support/operation-tools.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

const reads = (agentId: string) => [
  '/api/v1/agents',
  `/api/v1/agents/${agentId}`,
  `/api/v1/agents/${agentId}/env`,
  `/api/v1/agents/${agentId}/deployments`,
  `/api/v1/agents/${agentId}/history`,
  `/api/agents/${agentId}/conversations`,
  `/api/agents/${agentId}/logs`,
];

describe('A restored installation', () => {
  let folder: string;
  let service: StartedService;
  let restored: StartedService | null = null;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-backups-'));
    service = await StartedService.start({ runtime: 'local' });
  });
  afterAll(async () => {
    await restored?.dispose();
    await service?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  const agent = async (name: string): Promise<string> => {
    const { body } = await service.call('POST', '/api/agents', { name, templateId: 'hello' }, { prefer: 'wait=60' });
    await service.call('POST', `/api/v1/agents/${body.agent_id}/env`, { key: 'TOKEN', value: `canary-${name}-0815`, is_secret: true });
    await service.call('POST', `/api/agents/${body.agent_id}/chat`, { message: `a secret of ${name}` });
    await service.call('POST', `/api/agents/${body.agent_id}/stop`, undefined, { prefer: 'wait=30' });
    return body.agent_id;
  };

  /** Returns the responses of all reads, by path. */
  const answers = async (from: StartedService, agentId: string): Promise<Record<string, unknown>> => {
    const paths = reads(agentId);
    const bodies = await Promise.all(paths.map((path) => from.call('GET', path)));
    return Object.fromEntries(bodies.map(({ status, body }, index) => [paths[index], { status, body }]));
  };

  it('returns the same answers in a new folder, and agents deleted since the backup stay deleted and unreadable', async () => {
    const kept = await agent('kept');
    const doomed = await agent('doomed');
    const backup = join(folder, 'older.tar.gz');
    // The backup is taken while the service runs.
    expect(await tool('backup', service.dataDir, backup)).toContain('keys included');
    expect(await tool('restore', service.dataDir, '--check', backup)).toContain('is whole');
    await expect(tool('restore', service.dataDir, backup, '--replace')).rejects.toMatchObject({
      stderr: expect.stringMatching(/in use by process/),
    });
    expect((await service.call('DELETE', `/api/v1/agents/${doomed}`)).status).toBe(204);
    const before = await answers(service, kept);

    const dataDir = join(folder, 'new');
    await expect(tool('restore', dataDir, backup)).rejects.toMatchObject({ stderr: expect.stringMatching(/the master key is missing/) });
    await service.stop();
    // The new folder is like one after a move to another machine: it has the master key, the ledger, and for this test the credentials of
    // the first start.
    await tool('backup', service.dataDir, join(folder, 'stopped.tar.gz'));
    await rm(dataDir, { recursive: true, force: true });
    await promisify(execFile)('mkdir', ['-m', '711', dataDir]);
    for (const name of ['master.key', 'first-run.json']) await copyFile(join(service.dataDir, name), join(dataDir, name));
    const said = await tool('restore', dataDir, backup, '--shredded', join(service.dataDir, 'shredded.jsonl'));
    expect(said).toContain(`Agent ${doomed} had been deleted since`);

    restored = await StartedService.startOn(dataDir, { runtime: 'local' });
    const again = restored;
    await until('the agent that was deleted since is gone once more', async () => {
      const { status } = await again.call('GET', `/api/v1/agents/${doomed}`);
      return status === 404 ? true : undefined;
    });
    await until('every answer is as it was', async () => {
      const now = await answers(again, kept);
      return JSON.stringify(now) === JSON.stringify(before) ? true : undefined;
    }).catch(async () => expect(await answers(again, kept)).toEqual(before));
    expect((await again.call('GET', `/api/agents/${doomed}/conversations`)).status).toBe(404);
    expect((await again.call('POST', `/api/v1/agents/${kept}/deploy`, {}, { prefer: 'wait=60' })).body.status).toBe('active');
    const { body } = await again.call('POST', `/api/agents/${kept}/chat`, { message: 'are you there?' });
    expect(body.response).toContain('are you there?');
  });
});
