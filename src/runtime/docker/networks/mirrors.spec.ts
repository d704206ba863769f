import { MirrorAddresses, mirrorsOf } from './mirrors.ts';

describe('the mirrors of builds', () => {
  it('are the hosts that the values of the variables name', () => {
    const variables = {
      NPM_CONFIG_REGISTRY: 'https://user:password@npm.example.com/mirror/',
      PIP_EXTRA_INDEX_URL: 'http://10.0.0.7:8081/simple https://npm.example.com/simple',
      HTTPS_PROXY: 'http://[fd00::1]:3128',
      NPM_TOKEN: 'abc',
    };
    expect(mirrorsOf(variables)).toEqual([
      { host: 'npm.example.com', port: 443 },
      { host: '10.0.0.7', port: 8081 },
      { host: 'fd00::1', port: 3128 },
    ]);
  });

  it('are looked up, and one that is not found opens nothing', async () => {
    const mirrors = [
      { host: '10.0.0.7', port: 8081 },
      { host: 'fd00::1', port: 3128 },
      { host: 'nowhere.invalid', port: 443 },
    ];
    expect(await new MirrorAddresses(mirrors).read()).toEqual([
      { family: 'ip', range: '10.0.0.7/32', port: 8081 },
      { family: 'ip6', range: 'fd00::1/128', port: 3128 },
    ]);
  });
});
