import { camelCased, snakeCased, spelled } from './spelling.ts';

it('spells the names of fields as each of the two APIs does', () => {
  expect([spelled('health_path', 'camelCase'), spelled('health_path', 'snake_case'), spelled('port', 'camelCase')]).toEqual([
    'healthPath',
    'health_path',
    'port',
  ]);
  expect(camelCased({ memory_mb: 1, port: null })).toEqual({ memoryMb: 1, port: null });
  expect(snakeCased({ memoryMb: 1, idleTtlSeconds: 0, name: 'x' })).toEqual({ memory_mb: 1, idle_ttl_seconds: 0, name: 'x' });
});
