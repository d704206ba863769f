import { fileURLToPath } from 'node:url';

import fc from 'fast-check';

import { readConfig } from './read-config.ts';
import { originOf } from './origin-of.ts';

describe('the configuration', () => {
  it('has a default for everything', () => {
    expect(readConfig({})).toMatchObject({ port: 8080, host: '127.0.0.1', runtime: 'auto', builder: 'buildkit', production: false });
  });

  it('names all unknown and malformed variables in one error', () => {
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

  it('derives limits that are parts of others, and has the numbers of the manual by default', () => {
    const parts = { largeBodiesMbPerSecond: 8, repositoryFetchMaxMb: 512, volumeFilesMax: 655_360 };
    expect(readConfig({})).toMatchObject(parts);
    const given = { MOORING_LARGE_READS_MB_PER_SECOND: '1', MOORING_REPOSITORY_MAX_MB: '3', MOORING_VOLUME_MAX_MB: '1' };
    expect(readConfig(given)).toMatchObject({ largeBodiesMbPerSecond: 1, repositoryFetchMaxMb: 2, volumeFilesMax: 10_000 });
  });

  it('lets no agent ask for more than the default, unless the operator says so', () => {
    expect(readConfig({ MOORING_AGENT_MEMORY_MB: '256', MOORING_AGENT_CPUS: '2' })).toMatchObject({
      agentMemoryMaxMb: 256,
      agentCpusMax: 2,
    });
    const given = { MOORING_AGENT_MEMORY_MAX_MB: '4096', MOORING_AGENT_CPUS_MAX: '4' };
    expect(readConfig(given)).toMatchObject({ agentMemoryMb: 512, agentMemoryMaxMb: 4_096, agentCpus: 1, agentCpusMax: 4 });
  });

  it('names a limit of an account that is no setting any more', () => {
    for (const name of ['MOORING_STREAMS_PER_ACCOUNT', 'MOORING_DELIVERIES_PER_AGENT', 'MOORING_REFUSALS_PER_SECOND'])
      expect(() => readConfig({ [name]: '1' })).toThrow(`${name} is not a setting of Mooring`);
  });

  it('refuses combinations of values that contradict each other', () => {
    expect(() => readConfig({ NODE_ENV: 'production' })).toThrow('MOORING_MASTER_KEY must be given with NODE_ENV=production');
  });

  it('requires that the engine enforces the limits of agents in production, unless it says otherwise', () => {
    const production = { NODE_ENV: 'production', MOORING_MASTER_KEY: 'a'.repeat(64) };
    const required = [{}, production, { ...production, MOORING_REQUIRE_LIMITS: 'off' }, { MOORING_REQUIRE_LIMITS: 'on' }];
    expect(required.map((each) => readConfig(each).requireLimits)).toEqual([false, true, false, true]);
  });

  describe('of computers', () => {
    const refusal = (name: string, value: string): string | null => {
      try {
        readConfig({ [name]: value });
        return null;
      } catch (error) {
        return (error as Error).message;
      }
    };
    const ancestorsOf = (value: string) => readConfig({ MOORING_VIEWER_FRAME_ANCESTORS: value }).viewerFrameAncestors;

    it('reads the origins whose pages may frame a viewer, in the spelling of browsers', () => {
      expect(ancestorsOf('')).toEqual([]);
      expect(ancestorsOf(' https://App.Example:443 ,http://localhost:3000,https://[2001:DB8::1]:8443,https://bücher.example')).toEqual([
        'https://app.example',
        'http://localhost:3000',
        'https://[2001:db8::1]:8443',
        'https://xn--bcher-kva.example',
      ]);
    });

    it.each([
      '*',
      'https:',
      'https://*',
      'https://*.example.com',
      'https://app.*',
      'https://app.example:*',
      "'self'",
      "'unsafe-inline'",
      'app.example',
      '//app.example',
      'null',
      'data:',
      'data://app.example',
      'javascript://app.example',
      'blob:https://app.example',
      'ftp://app.example',
      'file:///etc/passwd',
      'https://app.example/',
      'https://app.example/page',
      'https://app.example?a',
      'https://app.example#a',
      'https://me:secret@app.example',
      'https://app.example;script-src *',
      'https://app.example; script-src *',
      'https://app.example script-src',
      'https://app.example https://other.example',
      'https://app.example\nscript-src',
      'https://app.example\r\nset-cookie: a=b',
      'https://app.example\t*',
      'https://app.example\0',
      "https://app'.example",
      'https://app".example',
      'https://app.example:99999',
      'https://app.example\\other',
      'https://good.example,https://*.bad.example',
    ])('refuses %j, which would let other pages frame a viewer or add to its policy', (value) => {
      expect(refusal('MOORING_VIEWER_FRAME_ANCESTORS', value)).toBe(
        'Configuration refused: MOORING_VIEWER_FRAME_ANCESTORS must be origins such as https://app.example.com, without wildcards, separated by commas, 100 at most.',
      );
    });

    it('accepts nothing but origins, whatever the value', () => {
      const text = fc.oneof(fc.string({ unit: 'binary' }), fc.webUrl(), fc.stringMatching(/^https?:\/\/[ -~]{1,20}$/));
      fc.assert(
        fc.property(text, (value) => {
          const origin = originOf(value);
          return origin === null || /^https?:\/\/([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/.test(origin);
        }),
      );
    });

    it('refuses too little memory for a desktop, and values that are no number of MiB', () => {
      for (const value of ['0', '511', '-4096', '4096.5', '4GB', '4e3', 'all', ' 4096', '1000000001', '9'.repeat(30)])
        expect(refusal('MOORING_COMPUTERS_MEMORY_MAX_MB', value)).toContain(
          'MOORING_COMPUTERS_MEMORY_MAX_MB must be a whole number from 512 to 1000000000',
        );
      expect(readConfig({ MOORING_COMPUTERS_MEMORY_MAX_MB: '4096' })).toMatchObject({
        computersMemoryMaxMb: 4_096,
        computersMemoryPerAccountMb: 2_048,
      });
    });

    it('accepts the name of an image or the path of an existing tar, and nothing else', () => {
      const file = fileURLToPath(import.meta.url);
      for (const value of ['desktop', 'registry.example:5000/team/desktop:1.2', `desktop@sha256:${'0'.repeat(64)}`, file])
        expect(readConfig({ MOORING_COMPUTER_IMAGE: value }).computerImage).toBe(value);
      for (const value of [
        'Desktop',
        'desktop:',
        'desktop tag',
        'desktop\n',
        'https://registry.example/desktop',
        '--privileged',
        `${file}.tar`,
        '/',
        './none.tar',
      ])
        expect(refusal('MOORING_COMPUTER_IMAGE', value)).toContain(
          'MOORING_COMPUTER_IMAGE must be [registry/]name[:tag], or the path of a tar that is there, which begins with / or .',
        );
    });
  });
});
