import { originLines, settingsOf } from './settings-of-deployment.ts';

describe('the run settings of a deployment', () => {
  const own = { port: 4000, cpus: null, start: ['node', 'a.js'] };
  const file = { port: 3000, protocol: 'openai' as const, cpus: 0.5, start: ['node', 'a.js'] };

  it('are those of the agent itself, and else those of mooring.json', () => {
    expect(settingsOf({ own, file })).toEqual({ port: 4000, protocol: 'openai', cpus: 0.5, start: ['node', 'a.js'] });
    expect(settingsOf({ own: {}, file: {} })).toEqual({});
  });

  it('are told in the build log, each with the place that says it', () => {
    expect(originLines({ own, file })).toEqual([
      'Setting protocol: "openai", as mooring.json says',
      "Setting port: 4000, as the agent's settings say; mooring.json says 3000",
      'Setting start: ["node","a.js"], as the agent\'s settings say',
      'Setting cpus: 0.5, as mooring.json says',
    ]);
    expect(originLines({ own: {}, file: {} })).toEqual([]);
  });
});
