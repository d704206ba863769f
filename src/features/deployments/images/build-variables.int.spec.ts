import type { QueryBus } from '@nestjs/cqrs';

import type { Variables } from '../../environment/services.ts';
import { BuildVariables, type NamedVariables } from './build-variables.service.ts';

const known = [
  { key: 'REGION', isSecret: false, value: 'eu' },
  { key: 'MODE', isSecret: false, value: 'all' },
  { key: 'TOKEN', isSecret: true, value: null },
];
const queries = { execute: () => Promise.resolve(known) } as unknown as QueryBus;
const variables = { of: () => Promise.resolve({ REGION: 'eu', MODE: 'all', TOKEN: 'canary' }) } as unknown as Variables;

async function given(named: NamedVariables) {
  const lines: string[] = [];
  const got = await new BuildVariables(queries, variables).of({ accountId: 'a', agentId: 'b' }, named, (line) => lines.push(line));
  return { ...got, lines };
}

describe('the variables of a build', () => {
  it('are all that are not secret if none are named', async () => {
    expect(await given({ names: null, allowsSecrets: true })).toEqual({ agent: { REGION: 'eu', MODE: 'all' }, secrets: {}, lines: [] });
  });

  it('are those that are named, secret ones apart, and the log names those that the agent lacks', async () => {
    const { lines, ...got } = await given({ names: ['REGION', 'TOKEN', 'OTHER'], allowsSecrets: true });
    expect(got).toEqual({ agent: { REGION: 'eu' }, secrets: { TOKEN: 'canary' } });
    expect(lines).toEqual([expect.stringMatching(/: OTHER$/)]);
  });

  it('have no secret where none is allowed, and the log says how to name it', async () => {
    const { lines, ...got } = await given({ names: ['REGION', 'TOKEN'], allowsSecrets: false });
    expect(got).toEqual({ agent: { REGION: 'eu' }, secrets: {} });
    expect(lines).toEqual([expect.stringMatching(/than the agent may: TOKEN\. Name it in the agent's own build_variables\.$/)]);
  });
});
