import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { parseTemplate } from './template.ts';
import { Templates, templatesFolder } from './templates.ts';

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
  protocol: { name: 'openai', path: '/v1/chat/completions', model: 'openclaw', history: 'agent' },
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

  it('can be a project, which is recognized by its files or has a plan', () => {
    expect(parse({ ...least, source: { kind: 'project' } }).source).toEqual({ kind: 'project', directory: '/templates/mine', plan: null });
    const steps = { install: [['npm', 'ci']], build: [['npm', 'run', 'build']], start: ['node', 'main.js'] };
    expect(parse({ ...least, source: { kind: 'project', language: 'node', ...steps } }).source).toMatchObject({
      kind: 'project',
      plan: { language: 'node', manifests: ['.'], framework: null, ...steps },
    });
  });

  it.each([
    ['no start command', { language: 'node', install: [['npm', 'ci']] }, 'source.start must be a list of 1 to 64'],
    ['an empty command', { language: 'node', install: [[]], start: ['x'] }, 'source.install[0] must be a list of 1 to 64'],
    ['a shell string', { language: 'node', build: ['npm run build'], start: ['x'] }, 'source.build[0] must be a list of 1 to 64'],
    ['another language', { language: 'cobol', start: ['x'] }, 'source.language must be one of node, python'],
    ['a manifest outside of the project', { language: 'node', manifests: ['../x'], start: ['x'] }, 'source.manifests[0] is not allowed'],
  ])('is refused for a project with %s', (_, plan, fault) => {
    expect(() => parse({ ...least, source: { kind: 'project', ...plan } })).toThrow(fault);
  });

  it('can set every member', () => {
    expect(parse(full)).toMatchObject({
      source: { kind: 'dockerfile', directory: '/templates/mine', dockerfile: 'Dockerfile', start: null },
      port: 3000,
      health: { tcp: true },
      startTimeoutSeconds: 90,
      stopGraceSeconds: 120,
      protocol: { name: 'openai', path: '/v1/chat/completions', model: 'openclaw', history: 'agent' },
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
    [{ protocol: { name: 'smtp' } }, /protocol\.name must be one of mooring, openai, langgraph, a2a/],
    [{ protocol: { name: 'langgraph', assistant_id: 'an agent' } }, /protocol\.assistant_id is not allowed/],
    [{ protocol: { name: 'openai', history: 'both' } }, /protocol\.history must be one of mooring, agent/],
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

  describe("with a folder of the operator's own", () => {
    let own: string;
    beforeEach(() => {
      own = join(folder, '.own');
      mkdirSync(own);
      put('mine', least);
    });
    const putOwn = (id: string, template: unknown) => {
      mkdirSync(join(own, id));
      writeFileSync(join(own, id, 'template.json'), JSON.stringify(template));
    };

    it('has the templates of both, sorted by id', () => {
      putOwn('added', { ...least, id: 'added' });
      expect(
        Templates.read(folder, own)
          .list()
          .map(({ id }) => id),
      ).toEqual(['added', 'mine']);
      expect(Templates.read(folder, own).get('added')).toMatchObject({ source: { directory: join(own, 'added') } });
    });

    it('follows a link to a folder, as a mounted configuration has them', () => {
      mkdirSync(join(own, '..data'));
      writeFileSync(join(own, '..data', 'template.json'), JSON.stringify({ ...least, id: 'linked' }));
      symlinkSync('..data', join(own, 'linked'));
      symlinkSync('nowhere', join(own, 'broken'));
      expect(
        Templates.read(folder, own)
          .list()
          .map(({ id }) => id),
      ).toEqual(['linked', 'mine']);
    });

    it('refuses to start with a bad one, with one whose id is taken, and without the folder', () => {
      putOwn('mine', least);
      putOwn('bad', { ...least, id: 'bad', port: 0 });
      expect(() => Templates.read(folder, own)).toThrow(
        'Templates refused: template bad: port must be a whole number from 1 to 65535. ' +
          'template mine: this installation has a template of that id, so the folder needs another name.',
      );
      const missing = join(folder, 'missing');
      expect(() => Templates.read(folder, missing)).toThrow(
        `Templates refused: the folder ${missing} can't be read (ENOENT). See MOORING_TEMPLATES_DIR.`,
      );
    });
  });
});
