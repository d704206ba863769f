import { fileURLToPath } from 'node:url';

import { readConfig } from '../../../kernel/config/read-config.ts';
import { Templates } from '../../templates/index.ts';
import type { ReleaseRun } from '../aggregate/agents.events.ts';
import { ReleaseRuns } from './release-runs.service.ts';

const templates = Templates.read(fileURLToPath(new URL('../../../../templates', import.meta.url)));
const runs = new ReleaseRuns(templates, readConfig({ MOORING_AGENT_MEMORY_MAX_MB: '1024', MOORING_AGENT_CPUS_MAX: '2' }));
const of = (templateId: string | null, run: ReleaseRun | null) => runs.of({ templateId, run });

describe('how a release is run and reached', () => {
  const defaults = {
    template: null,
    port: 8080,
    health: { path: '/healthz' },
    protocol: { name: 'mooring' },
    stopGraceSeconds: 10,
    memoryMb: 512,
    cpus: 1,
    pids: 256,
    webhookHandshake: null,
  };

  it('is as the defaults say where nothing was said, such as of an agent without a release', () => {
    expect(of(null, null)).toEqual(defaults);
    expect(runs.of(null)).toEqual(defaults);
    expect(of('gone', null)).toEqual(defaults);
  });

  it('is as its deployment said', () => {
    const said = { port: 3000, protocol: 'openai', health_path: 'tcp', memory_mb: 256, cpus: 0.5, webhook_handshake: '/h' } as const;
    expect(of(null, said)).toEqual({
      ...defaults,
      port: 3000,
      protocol: { name: 'openai' },
      health: { tcp: true },
      memoryMb: 256,
      cpus: 0.5,
      webhookHandshake: '/h',
    });
    expect(of(null, { health_path: '/ready' }).health).toEqual({ path: '/ready' });
  });

  it('is as its template says where nothing else was said, and keeps the further members of the same protocol', () => {
    const [template] = templates.list().filter(({ protocol }) => protocol.name === 'langgraph');
    if (template === undefined) throw new Error('there is no template with langgraph');
    expect(of(template.id, null)).toMatchObject({ template, port: template.port, health: template.health, protocol: template.protocol });
    expect(of(template.id, { protocol: 'langgraph' }).protocol).toEqual(template.protocol);
    expect(of(template.id, { protocol: 'a2a' }).protocol).toEqual({ name: 'a2a' });
  });

  it('stays within the bounds of an operator who lowered them', () => {
    expect(of(null, { memory_mb: 4_096, cpus: 8 })).toMatchObject({ memoryMb: 1_024, cpus: 2 });
  });
});
