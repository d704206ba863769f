import { readFileSync } from 'node:fs';
import { readConfig } from './config.ts';

const sources = ['config.ts', 'computer-settings.ts'].map((name) => readFileSync(new URL(name, import.meta.url), 'utf8'));
const manual = readFileSync(new URL('../../../docs/operations.md', import.meta.url), 'utf8');

describe('the configuration', () => {
  it('has a default for everything', () => {
    expect(readConfig({})).toMatchObject({ port: 8080, host: '127.0.0.1', runtime: 'auto', builder: 'buildkit', production: false });
  });

  it('names every unknown and every malformed variable at once', () => {
    const environment = { MOORING_TYPO: '1', PORT: 'x', MOORING_RUNTIME: 'podman', PATH: '/bin' };
    expect(() => readConfig(environment)).toThrow(
      'Configuration refused: PORT must be a whole number from 0 to 65535; MOORING_RUNTIME must be one of auto, docker, local; ' +
        'MOORING_TYPO is not a setting of Mooring.',
    );
  });

  it('reads the private addresses that agents may reach', () => {
    const { agentEgressPrivate } = readConfig({ MOORING_AGENT_EGRESS_PRIVATE: '10.1.2.0/24:5432, fd00::1' });
    expect(agentEgressPrivate.map(({ range, port }) => [range, port])).toEqual([
      ['10.1.2.0/24', 5_432],
      ['fd00::1/128', null],
    ]);
    expect(() => readConfig({ MOORING_AGENT_EGRESS_PRIVATE: '10.1.2.0/24,gpu.example' })).toThrow('MOORING_AGENT_EGRESS_PRIVATE must be');
  });

  it('refuses values that do not go together', () => {
    expect(() => readConfig({ NODE_ENV: 'production' })).toThrow('MOORING_MASTER_KEY must be given with NODE_ENV=production');
  });

  it('requires that the engine enforces the limits of agents in production, unless it says otherwise', () => {
    const production = { NODE_ENV: 'production', MOORING_MASTER_KEY: 'a'.repeat(64) };
    const required = [{}, production, { ...production, MOORING_REQUIRE_LIMITS: 'off' }, { MOORING_REQUIRE_LIMITS: 'on' }];
    expect(required.map((each) => readConfig(each).requireLimits)).toEqual([false, true, false, true]);
  });

  it('is listed completely in docs/operations.md', () => {
    const names = [...sources.join('\n').matchAll(/read\.\w+\('([A-Z_]+)'/g)].map(([, name]) => name as string);
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !manual.includes(`\`${name}\``))).toEqual([]);
  });
});
