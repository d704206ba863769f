import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { seenContainers } from '../test/support/engine.ts';
import { StartedService } from '../test/support/started-service.ts';
import { machineLoad, rounded, summary } from './support/figures.ts';

const ROUNDS = 60;
const WARM_ROUNDS = 5;
/** The program that both run, since the image of the agent has no `true` of its own. */
const HELPER = '/.mooring/busybox';

/** Measures the time (ms) of `exec true` through the service against that of `docker exec` in the same container, in turns. */
export async function run(): Promise<object> {
  const service = await StartedService.start({ runtime: 'docker', environment: { MOORING_LOG_LEVEL: 'warn' } });
  try {
    const made = await service.call('POST', '/api/agents', { name: 'exec', templateId: 'hello' }, { prefer: 'wait=100' });
    const agentId = made.body.agent_id as string;
    const [seen] = await seenContainers(agentId);
    const bare: number[] = [];
    const ours: number[] = [];
    for (let round = -WARM_ROUNDS; round < ROUNDS; round += 1) {
      const one = await timed(() => promisify(execFile)('docker', ['exec', seen?.id ?? '', HELPER, 'true']));
      const other = await timed(async () => {
        const { status, body } = await service.call('POST', `/api/agents/${agentId}/exec`, { command: ['true'] });
        if (status !== 200 || body.exitCode !== 0) throw new Error(`exec answered ${status} ${JSON.stringify(body)}`);
      });
      if (round < 0) continue;
      bare.push(one);
      ours.push(other);
    }
    await service.call('DELETE', `/api/v1/agents/${agentId}`);
    const figures = { bare: summary(bare), mooring: summary(ours) };
    console.table(figures);
    return { ...figures, ratio: rounded(figures.mooring.p50 / figures.bare.p50), load: machineLoad() };
  } finally {
    await service.dispose();
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}
