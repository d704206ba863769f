import { eventDefinitions } from '../../../app.module.ts';
import { actorCode, kindCode, typeCode } from './audit.projection.ts';

it('has a distinct code for every type of event, and 0 for an unknown kind of actor', () => {
  const types = eventDefinitions.map(({ type }) => type);
  expect(new Set([0, ...types.map(typeCode)]).size).toBe(types.length + 1);
  expect(['api_key', 'session', 'system', 'webhook', 'anonymous', 'viewer'].map(kindCode)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(['deployments', 'toString', ''].map(kindCode)).toEqual([0, 0, 0]);
  expect(actorCode('deployments')).not.toBe(actorCode('messages'));
});
