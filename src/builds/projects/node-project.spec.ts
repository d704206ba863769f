import { commandsOf, json, planOfFiles as plan } from '../../../test/support/planned-projects.ts';

const node = json({ main: 'agent.js', dependencies: { ms: '^2' } });
const manager = 'npm install --prefix .mooring-manager --no-save --no-package-lock --no-audit --no-fund ';

describe('a project without a Dockerfile', () => {
  it.each<[string, Record<string, string>, string[], string]>([
    ['no lock file', { 'package.json': node }, ['package.json'], 'npm install --omit=dev --no-audit --no-fund'],
    [
      'package-lock.json',
      { 'package.json': node, 'package-lock.json': '', '.npmrc': '' },
      ['package.json', 'package-lock.json', '.npmrc'],
      'npm ci --omit=dev --no-audit --no-fund',
    ],
    [
      'pnpm-lock.yaml',
      { 'package.json': node, 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" },
      ['package.json', 'pnpm-lock.yaml'],
      `${manager}pnpm@10 && pnpm install --frozen-lockfile --prod`,
    ],
    [
      'an old pnpm-lock.yaml',
      { 'package.json': node, 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" },
      ['package.json', 'pnpm-lock.yaml'],
      `${manager}pnpm@8 && pnpm install --frozen-lockfile --prod`,
    ],
    [
      'yarn.lock',
      { 'package.json': node, 'yarn.lock': '# yarn lockfile v1\n' },
      ['package.json', 'yarn.lock'],
      `${manager}yarn@1 && yarn install --frozen-lockfile --non-interactive --production=true`,
    ],
    [
      'a newer yarn.lock',
      { 'package.json': json({ main: 'a', packageManager: 'yarn@4.1.0+x', dependencies: { ms: '2' } }), 'yarn.lock': '#\n__metadata:\n' },
      ['package.json', 'yarn.lock'],
      `${manager}@yarnpkg/cli-dist@4.1.0 && yarn install --immutable`,
    ],
    [
      'the yarn.lock of an earlier version',
      { 'package.json': node, 'yarn.lock': '__metadata:\n  version: 6\n' },
      ['package.json', 'yarn.lock'],
      `${manager}@yarnpkg/cli-dist@3 && yarn install --immutable`,
    ],
    [
      'bun.lock',
      { 'package.json': node, 'bun.lock': '{}' },
      ['package.json', 'bun.lock'],
      `${manager}bun@1 && bun install --frozen-lockfile --production`,
    ],
    [
      'packageManager, whatever other lock files there are',
      { 'package.json': json({ main: 'a', packageManager: 'npm@10.8.2' }), 'package-lock.json': '', 'yarn.lock': '', 'pnpm-lock.yaml': '' },
      ['package.json', 'package-lock.json', 'yarn.lock', 'pnpm-lock.yaml'],
      'npm ci --omit=dev --no-audit --no-fund',
    ],
    [
      'packageManager without a lock file',
      { 'package.json': json({ main: 'a', packageManager: 'pnpm@10.12.1+sha512.0a', dependencies: { ms: '2' } }), 'package-lock.json': '' },
      ['package.json', 'package-lock.json'],
      `${manager}pnpm@10.12.1 && pnpm install --no-frozen-lockfile --prod`,
    ],
    [
      'devEngines',
      { 'package.json': json({ main: 'a', devEngines: { packageManager: { name: 'yarn', version: '^4.1' } }, dependencies: { ms: '2' } }) },
      ['package.json'],
      `${manager}@yarnpkg/cli-dist@4.1 && yarn install --no-immutable`,
    ],
    [
      'the manager that its scripts call',
      { 'package.json': json({ scripts: { start: 'yarn serve', serve: 'node a.js' }, dependencies: { ms: '2' } }) },
      ['package.json'],
      `${manager}yarn@1 && yarn install --non-interactive --production=true`,
    ],
    [
      'packages of its own',
      { 'package.json': json({ main: 'a', dependencies: { own: 'file:own' } }) },
      ['.'],
      'npm install --omit=dev --no-audit --no-fund',
    ],
    [
      'a script at the installation',
      { 'package.json': json({ main: 'a', scripts: { postinstall: 'x' } }) },
      ['.'],
      'npm install --omit=dev --no-audit --no-fund',
    ],
  ])('in Node is installed by %s', (_, files, manifests, command) => {
    expect(plan(files)).toMatchObject({ language: 'node', manifests, install: commandsOf(command), build: [] });
  });

  it('in Node that is built has its development packages for the build only', () => {
    const files = { 'package.json': json({ scripts: { build: 'tsc', start: 'NODE_ENV=test node a' }, devDependencies: { x: '1' } }) };
    expect(plan(files)).toMatchObject({
      install: [['npm', 'install', '--include=dev', '--no-audit', '--no-fund']],
      build: [
        ['npm', 'run', 'build'],
        ['npm', 'prune', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'],
      ],
      env: { NODE_ENV: 'test' },
    });
  });

  it('in Node has its manager on PATH for the build, which that manager runs', () => {
    const scripts = { build: 'pnpm run compile && pnpm run copy', compile: 'tsc', copy: 'cp a b', start: 'node dist/a.js' };
    const files = { 'package.json': json({ scripts, devDependencies: { typescript: '5' } }), 'pnpm-lock.yaml': '' };
    expect(plan(files)).toMatchObject({
      install: commandsOf(`${manager}pnpm@10 && pnpm install --frozen-lockfile --prod=false`),
      build: commandsOf('pnpm run build && pnpm prune --prod --ignore-scripts --config.confirmModulesPurge=false'),
      start: ['node', 'dist/a.js'],
    });
  });

  it.each<[string, object, string]>([
    ['a program of theirs', { start: 'tsx server.ts' }, 'tsx'],
    ['a program of theirs by a script', { start: 'npm run serve', serve: 'nodemon dist/main.js' }, 'nodemon'],
    ['a program of another name', { start: 'nest start' }, 'nest'],
    ['a program before the start', { prestart: 'prisma migrate deploy', start: 'node a.js' }, 'prisma'],
    ['a program among others', { start: 'NODE_ENV=production cross-env A=1 tsx a.ts | cat' }, 'tsx'],
    ['a package in an option', { start: 'node -r tsx/register a.ts' }, 'tsx'],
    ['a script of a shell, which may call one', { start: 'sh start.sh' }, 'sh'],
    ['a program of the project, which may call one', { start: './start' }, './start'],
    ['a package with a scope', { start: 'node --import @swc-node/register/esm a.ts' }, '@swc-node/register'],
    ['a package in a setting', { start: 'NODE_OPTIONS=--import=tsx node a.ts' }, 'tsx'],
    ['a script of a member', { start: 'pnpm --filter api start' }, 'pnpm --filter'],
    ['a script of a member with the same name', { start: 'npm start --workspace api' }, 'npm start'],
  ])('in Node keeps the packages of the development if the start needs %s', (_, scripts, need) => {
    const files = {
      'package.json': json({ scripts, dependencies: { ms: '2' }, devDependencies: { tsx: '4', eslint: '9', '@swc-node/register': '1' } }),
      'package-lock.json': '',
    };
    const found = plan(files);
    expect(found).toMatchObject({
      notes: [`Packages of the development stay, since the start calls ${need}`],
      env: { NODE_ENV: 'production' },
    });
    const whole = need.startsWith('pnpm') ? null : [['npm', 'ci', '--include=dev', '--no-audit', '--no-fund']];
    expect(found.install).toEqual(whole ?? found.install);
    expect([...found.install, ...found.build].flat()).not.toContain('prune');
  });

  it.each<[string, object]>([
    ['node', { start: 'node --enable-source-maps dist/a.js' }],
    ['a program of the production', { start: 'ms start -p $PORT' }],
    ['programs of the image', { start: 'mkdir -p /tmp/x && node a.js | tee log' }],
  ])('in Node leaves them out if it is started by %s', (_, scripts) => {
    const files = { 'package.json': json({ scripts, dependencies: { ms: '2' }, devDependencies: { tsx: '4' } }) };
    expect(plan(files).install).toEqual(commandsOf('npm install --omit=dev --no-audit --no-fund'));
  });

  it('in Node has them while scripts of its own run at the installation', () => {
    const files = {
      'package.json': json({ main: 'a', scripts: { prepare: 'husky' }, devDependencies: { husky: '9' } }),
      'package-lock.json': '',
    };
    expect(plan(files).install).toEqual(
      commandsOf('npm ci --include=dev --no-audit --no-fund && npm prune --omit=dev --ignore-scripts --no-audit --no-fund'),
    );
  });

  it.each<[string, Record<string, string>, string[]]>([
    ['a file', { 'package.json': json({ scripts: { start: 'bun run server.js' } }), 'bun.lock': '' }, ['bun', 'run', 'server.js']],
    ['a script', { 'package.json': json({ scripts: { start: 'bun serve', serve: 'node a.js' } }), 'bun.lock': '' }, ['node', 'a.js']],
    ['its module', { 'package.json': json({ module: 'agent.ts' }), 'bun.lock': '', 'index.ts': '' }, ['bun', 'agent.ts']],
    ['index.ts', { 'package.json': '{}', 'bun.lock': '', 'index.ts': '' }, ['bun', 'index.ts']],
  ])('for Bun is started by %s', (_, files, start) => {
    expect(plan(files)).toMatchObject({ start });
    expect(plan(files).install[0]).toContain('bun@1');
  });
});
