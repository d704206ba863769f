import { releaseRun } from './release-run.rules.ts';

describe('the run settings that a release keeps', () => {
  it('are those of its containers, without those of the build and of the start', () => {
    const said = {
      protocol: 'a2a' as const,
      port: 3000,
      health_path: 'tcp',
      start: ['node', 'a.js'],
      root: 'api',
      start_timeout: 90,
      memory_mb: 256,
      cpus: 0.5,
      webhook_handshake: '/h',
      build_variables: ['A'],
    };
    const kept = { protocol: 'a2a', port: 3000, health_path: 'tcp', memory_mb: 256, cpus: 0.5, webhook_handshake: '/h' };
    expect(releaseRun(said, null)).toEqual(kept);
    expect(releaseRun(said, 9000)).toEqual(kept);
  });

  it('have the port that the image exposes, if no other was said', () => {
    expect(releaseRun({}, 3000)).toEqual({ port: 3000 });
    expect(releaseRun({ port: null }, 3000)).toEqual({ port: 3000 });
    expect(releaseRun({}, null)).toBeNull();
  });
});
