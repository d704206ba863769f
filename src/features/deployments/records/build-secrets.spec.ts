import { secretsOfBuilds } from './build-secrets.ts';

describe('the settings of builds in a build log', () => {
  it.each<[string, string, string[]]>([
    ['NPM_TOKEN', 'npm_abcdef', ['npm_abcdef']],
    ['NPM_CONFIG_REGISTRY', 'https://npm.example.com/mirror/', []],
    [
      'PIP_INDEX_URL',
      'https://reader:p%40ss@pypi.example.com/simple',
      ['https://reader:p%40ss@pypi.example.com/simple', 'reader', 'p%40ss', 'p@ss'],
    ],
    [
      'PIP_INDEX_URL',
      'https://pypi.example.com/0123456789abcdef/simple',
      ['https://pypi.example.com/0123456789abcdef/simple', '0123456789abcdef'],
    ],
    ['X', 'https://example.com/?token=abcd', ['https://example.com/?token=abcd', 'token=abcd']],
    ['NO_PROXY', 'localhost', []],
  ])('are hidden in %s=%s as far as they may be secrets', (name, value, secrets) => {
    expect([...new Set(secretsOfBuilds({ [name]: value }))]).toEqual(secrets);
  });
});
