import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { parseTemplate } from './template.ts';
import { Templates, templatesFolder } from './templates.ts';
import { TemplatesController } from './templates.controller.ts';

const least = {
  id: 'mine',
  name: 'Mine',
  description: 'An agent of mine.',
  source: { kind: 'program', language: 'node', start: ['node', 'agent.mjs'] },
};
const full = {
  ...least,
  source: { kind: 'dockerfile', dockerfile: 'Dockerfile' },
  port: 3000,
  health: { tcp: true },
  start_timeout: 90,
  stop_grace: 120,
  protocol: { name: 'openai', path: '/v1/chat/completions', model: 'openclaw' },
  resources: { memory_mb: 1536, pids: 256 },
  env: { MODE: 'quiet' },
  variables: [{ name: 'KEY', description: 'The key.', required: true, secret: true }],
  user: '10001:10001',
  read_only_root: true,
  tmpfs: ['/tmp', '/home/agent/.cache'],
};
const parse = (value: unknown) => parseTemplate(JSON.stringify(value), 'mine', '/templates/mine');

describe('a template.json', () => {
  it('requires only a name, a description and a source', () => {
    expect(parse(least)).toEqual({
      id: 'mine',
      name: 'Mine',
      description: 'An agent of mine.',
      source: { kind: 'program', directory: '/templates/mine', language: 'node', start: ['node', 'agent.mjs'] },
      port: 8080,
      health: { path: '/healthz' },
      startTimeoutSeconds: null,
      stopGraceSeconds: 10,
      protocol: { name: 'mooring' },
      resources: { memoryMb: null, pids: null },
      env: {},
      variables: [],
      user: null,
      readOnlyRoot: false,
      tmpfs: [],
    });
  });

  it('can set every member', () => {
    expect(parse(full)).toMatchObject({
      source: { kind: 'dockerfile', directory: '/templates/mine', dockerfile: 'Dockerfile', start: null },
      port: 3000,
      health: { tcp: true },
      startTimeoutSeconds: 90,
      stopGraceSeconds: 120,
      protocol: { name: 'openai', path: '/v1/chat/completions', model: 'openclaw' },
      resources: { memoryMb: 1536, pids: 256 },
      env: { MODE: 'quiet' },
      variables: [{ name: 'KEY', description: 'The key.', required: true, secret: true }],
      user: '10001:10001',
      readOnlyRoot: true,
      tmpfs: ['/tmp', '/home/agent/.cache'],
    });
  });

  it.each([
    [{ id: 'other' }, /id must be the folder's name, mine/],
    [{ name: undefined }, /name is missing/],
    [{ colour: 'red' }, /colour is not known/],
    [{ source: { kind: 'program', language: 'node' } }, /source\.start must be a list of 1 to 64/],
    [{ source: { kind: 'program', language: 'cobol', start: ['x'] } }, /source\.language must be one of node/],
    [{ source: { kind: 'dockerfile', dockerfile: '../Dockerfile' } }, /source\.dockerfile is not allowed/],
    [{ port: 0 }, /port must be a whole number from 1 to 65535/],
    [{ port: '8080' }, /port must be a whole number/],
    [{ health: {} }, /health\.path is missing/],
    [{ health: { path: '//evil\r\nx: y' } }, /health\.path is not allowed/],
    [{ health: { tcp: false } }, /health\.tcp must be true/],
    [{ health: { tcp: true, path: '/x' } }, /health\.path is not known/],
    [{ stop_grace: 121 }, /stop_grace must be a whole number from 0 to 120/],
    [{ protocol: { name: 'smtp' } }, /protocol\.name must be one of mooring, openai/],
    [{ protocol: { name: 'openai', path: 'http://x/' } }, /protocol\.path is not allowed/],
    [{ resources: { memory_mb: 1 } }, /resources\.memory_mb must be a whole number/],
    [{ env: { PORT: '1' } }, /env may not have the name "PORT"/],
    [{ env: { MOORING_X: '1' } }, /env may not have the name "MOORING_X"/],
    [{ env: { A: 1 } }, /env must have texts only/],
    [{ variables: [{ name: 'A' }] }, /variables\[0\]\.description is missing/],
    [{ user: 'root;id' }, /user is not allowed/],
    [{ tmpfs: ['../x'] }, /tmpfs\[0\] is not allowed/],
  ])('is refused with %j', (change, message) => {
    expect(() => parse({ ...least, ...change })).toThrow(message);
    expect(() => parse({ ...least, ...change })).toThrow(/^template mine: /);
  });

  it('is refused with one error that names every fault', () => {
    expect(() => parse({ ...least, name: '', port: -1, x: 1 })).toThrow(
      'template mine: name is not allowed; port must be a whole number from 1 to 65535; x is not known',
    );
  });

  it('is refused with a clear error whatever it contains', () => {
    const named = (run: () => unknown) => {
      try {
        run();
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        expect((error as Error).message).toMatch(/^template mine: ./);
        expect((error as Error).constructor).toBe(Error);
      }
    };
    fc.assert(fc.property(fc.string(), (text) => named(() => parseTemplate(text, 'mine', '/t'))));
    fc.assert(fc.property(fc.json(), (text) => named(() => parseTemplate(text, 'mine', '/t'))));
    const names = Object.keys(full);
    const changed = fc.dictionary(fc.constantFrom(...names, '__proto__', 'constructor', 'toString'), fc.jsonValue());
    fc.assert(
      fc.property(changed, (change) => named(() => parse({ ...full, ...change }))),
      { numRuns: 500 },
    );
  });
});

describe('the catalogue', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-templates-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const put = (id: string, template: unknown) => {
    mkdirSync(join(folder, id));
    writeFileSync(join(folder, id, 'template.json'), JSON.stringify(template));
  };

  it('reads the templates of this installation', () => {
    const templates = Templates.read(templatesFolder);
    expect(templates.list().map(({ id }) => id)).toEqual(expect.arrayContaining(['assistant', 'hello']));
    expect(templates.get('hello')).toMatchObject({ id: 'hello', port: 8080, protocol: { name: 'mooring' } });
    expect(templates.get('none')).toBeUndefined();
    expect(templates.get('__proto__')).toBeUndefined();
  });

  it('refuses to start with bad templates, all named', () => {
    put('mine', least);
    put('bad', { ...least, id: 'bad', port: 0 });
    put('worse', { ...full, id: 'worse' });
    mkdirSync(join(folder, 'empty'));
    writeFileSync(join(folder, 'README.md'), 'no template');
    expect(() => Templates.read(folder)).toThrow(
      'Templates refused: template bad: port must be a whole number from 1 to 65535. ' +
        'template empty: there is no template.json. template worse: there is no Dockerfile.',
    );
  });

  it('is public, in camel case, without the members that only the service needs', () => {
    put('mine', { ...least, env: { A: 'private' }, variables: full.variables, resources: { memory_mb: 64 } });
    expect(new TemplatesController(Templates.read(folder)).list()).toEqual([
      {
        id: 'mine',
        name: 'Mine',
        description: 'An agent of mine.',
        protocol: 'mooring',
        port: 8080,
        memoryMb: 64,
        variables: full.variables,
      },
    ]);
  });
});
