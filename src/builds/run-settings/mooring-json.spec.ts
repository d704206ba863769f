import fc from 'fast-check';

import { parseMooringJson } from './mooring-json.ts';
import { runSettingNames, runSettingProblem } from './run-setting-rules.ts';

const bounds = { agentMemoryMaxMb: 512, agentCpusMax: 1 };
const settings = (text: string) => parseMooringJson(text, bounds);

/** Returns the refusal of the text. */
function refusal(text: string): string {
  try {
    settings(text);
    return 'accepted';
  } catch (error) {
    expect((error as Error).name).toBe('RepositoryRefused');
    return (error as Error).message;
  }
}

const whole = {
  protocol: 'openai',
  port: 3000,
  health_path: '/ready?deep=1',
  start: ['node', 'server.js', '--port=3000'],
  root: 'apps/api',
  start_timeout: 120,
  memory_mb: 256,
  cpus: 0.5,
  webhook_handshake: '/handshake',
  build_variables: ['NPM_TOKEN', 'VITE_URL'],
};

describe('mooring.json', () => {
  it('says how an agent is built, run and reached', () => {
    expect(settings(JSON.stringify(whole))).toEqual(whole);
    expect(settings('{}')).toEqual({});
    expect(settings('\ufeff{ "health_path": "tcp" }\r\n')).toEqual({ health_path: 'tcp' });
  });

  it('may name its schema, which editors use', () => {
    expect(settings('{"$schema":"https://mooring.example.com/api/schemas/mooring.json","port":1}')).toEqual({ port: 1 });
  });

  it.each([
    ['{\n"protocol": "openai",\n\n"port": "3000"\n}', 'mooring.json, line 4: port must be a whole number from 1 to 65535.'],
    ['{"port":0}', 'mooring.json, line 1: port must be a whole number from 1 to 65535.'],
    ['{"port":1.5}', 'mooring.json, line 1: port must be a whole number from 1 to 65535.'],
    ['{"protocol":"grpc"}', 'mooring.json, line 1: protocol must be one of mooring, openai, langgraph, a2a.'],
    [
      '{"health_path":"healthz"}',
      'mooring.json, line 1: health_path must be "tcp" or a path: a slash, and then at most 255 visible ASCII characters.',
    ],
    ['{"start_timeout":601}', 'mooring.json, line 1: start_timeout must be a whole number from 5 to 600.'],
    ['{"memory_mb":513}', "mooring.json, line 1: memory_mb must be at most 512, the operator's bound (MOORING_AGENT_MEMORY_MAX_MB)."],
    ['{"cpus":1.01}', "mooring.json, line 1: cpus must be at most 1, the operator's bound (MOORING_AGENT_CPUS_MAX)."],
    ['{"build_variables":["A","A"]}', 'mooring.json, line 1: build_variables must be a list of at most 200 names of variables, each once.'],
    ['{"port":null}', 'mooring.json, line 1: port must not be null; leave it out instead.'],
    ['{"port":1,\n"port":2}', 'mooring.json, line 2: port is there twice.'],
    ['{"port":1,}', 'mooring.json, line 1: this is not JSON: there has to be the name of a member, in quotes.'],
    [
      '{"port":0,\n"cpus":0}',
      'mooring.json, line 1: port must be a whole number from 1 to 65535. mooring.json, line 2: cpus must be a number from 0.05 to 1024.',
    ],
  ])('is refused with the line and the member: %j', (text, message) => {
    expect(refusal(text)).toBe(message);
  });

  it('is refused with the members that there are, if it has another', () => {
    expect(refusal('{\n"healthPath":"/"}')).toMatch(/^mooring\.json, line 2: "healthPath" is not known; the members are protocol, port, /);
    expect(refusal('{"__proto__":1}')).toContain('"__proto__" is not known');
  });

  it.each(['/srv', '..', 'a/../b', 'a/..', '', '\\windows', 'a\nb', 'x'.repeat(501)])(
    'has no root outside of the repository: %j',
    (root) => {
      expect(refusal(JSON.stringify({ root }))).toContain('line 1: root must be a folder of the repository');
    },
  );

  it.each(['.', './apps/api', 'apps/api/', 'a..b', 'ünï'])('has a root in the repository: %j', (root) => {
    expect(settings(JSON.stringify({ root }))).toEqual({ root });
  });

  it.each([
    [[]],
    [['']],
    ['node a.js'],
    [['node', 1]],
    [Array.from({ length: 65 }, () => 'a')],
    [['a\0b']],
    [Array.from({ length: 5 }, () => 'a'.repeat(4_000))],
  ])('has a start command of a program and its arguments, and not %j', (start) => {
    expect(refusal(JSON.stringify({ start }))).toContain('start must be a list of the program and its arguments');
  });

  it('gives back exactly what its rules accept, and otherwise names the member', () => {
    const members = fc.dictionary(
      fc.constantFrom(...runSettingNames, 'name', '$schema'),
      fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(...Object.values(whole))),
      {
        maxKeys: 4,
      },
    );
    fc.assert(
      fc.property(members, (said) => {
        const { $schema, ...others } = said;
        const isGood = Object.entries(others).every(
          ([name, value]) =>
            (runSettingNames as string[]).includes(name) &&
            value !== null &&
            runSettingProblem(name as 'port', value) === null &&
            !(name === 'memory_mb' && (value as number) > 512) &&
            !(name === 'cpus' && (value as number) > 1),
        );
        const isAccepted = isGood && ($schema === undefined || typeof $schema === 'string');
        const text = JSON.stringify(said);
        if (isAccepted) expect(JSON.stringify(settings(text))).toBe(JSON.stringify(others));
        else expect(refusal(text)).toMatch(/^mooring\.json, line 1: /);
      }),
    );
  });
});
