import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import fc from 'fast-check';

import { mooringJsonSchema } from './mooring-json-schema.ts';
import { runSettingNames, runSettingProblem } from './run-setting-rules.ts';
import type { RunSettingName } from './run-settings.ts';

const { $schema, ...schema } = mooringJsonSchema;
const isValid = new AjvJsonSchemaValidator().getValidator(schema);

/** Values that are allowed, and values close to these that are not. */
const values: Record<RunSettingName, fc.Arbitrary<unknown>> = {
  protocol: fc.constantFrom('mooring', 'openai', 'langgraph', 'a2a', 'http', 1),
  port: fc.oneof(fc.integer({ min: -1, max: 70_000 }), fc.constantFrom(1, 65_535, 0, 65_536, 80.5, '80')),
  health_path: fc.oneof(
    fc.constantFrom('tcp', 'udp', '/', '/a b', '/é', true),
    fc.string({ maxLength: 300 }).map((text) => `/${text}`),
  ),
  start: fc.oneof(
    fc.array(fc.constantFrom('node', 'a.js', '', 1), { maxLength: 3 }),
    fc.constantFrom(
      'node a.js',
      Array.from({ length: 65 }, () => 'a'),
    ),
  ),
  root: fc.constantFrom('a', 'a/b', './a', '.', '..', '../a', 'a/..', 'a/../b', '/a', 'a\\b', '', '..a', 'a..'),
  start_timeout: fc.oneof(fc.integer({ min: 0, max: 700 }), fc.constantFrom(5, 600, 4, 601)),
  memory_mb: fc.constantFrom(15, 16, 512, 1_048_576, 1_048_577, 0.5),
  cpus: fc.constantFrom(0, 0.05, 0.5, 1_024, 1_025, '1'),
  webhook_handshake: fc.constantFrom('/', '/hook?x=1', 'hook', '/a b', 1),
  build_variables: fc.array(fc.constantFrom('A', 'B_1', '1A', 'A-B', 1), { maxLength: 3 }),
};

describe('the schema of mooring.json', () => {
  it.each(runSettingNames)('accepts of %s what is accepted, for editors that check the file', (name) => {
    fc.assert(
      fc.property(values[name], (value) => {
        expect([value, isValid({ [name]: value }).valid]).toEqual([value, runSettingProblem(name, value) === null]);
      }),
    );
  });

  it('accepts its own address, and no other member', () => {
    expect($schema).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(isValid({ $schema: 'https://mooring.example.com/api/schemas/mooring.json' }).valid).toBe(true);
    expect(isValid({ healthPath: '/' }).valid).toBe(false);
    expect(isValid([]).valid).toBe(false);
  });
});
