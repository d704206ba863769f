import fc from 'fast-check';

import { computerSandbox, kindOf, ownerOf, sandboxIdOf, sandboxOfStream, streamOf } from './sandbox-id.ts';

const uuid = fc.uuid();

describe('the id of a sandbox', () => {
  it('distinguishes an agent from a computer', () => {
    fc.assert(
      fc.property(uuid, (id) => {
        expect(kindOf(id)).toBe('agent');
        expect(kindOf(computerSandbox(id))).toBe('computer');
      }),
    );
  });

  it('names its owner, and is found again by that', () => {
    fc.assert(
      fc.property(uuid, (id) => {
        expect(ownerOf(id)).toEqual({ agent_id: id });
        expect(ownerOf(computerSandbox(id))).toEqual({ computer_id: id });
        for (const sandboxId of [id, computerSandbox(id)]) expect(sandboxIdOf(ownerOf(sandboxId))).toBe(sandboxId);
      }),
    );
  });

  it('is never that of two owners', () => {
    fc.assert(fc.property(uuid, uuid, (agent, computer) => agent !== computerSandbox(computer)));
  });

  it('is found by the name of its own stream, and by no other stream', () => {
    fc.assert(
      fc.property(uuid, fc.constantFrom('exec', 'files', 'logs', 'deployment', 'viewer', 'account'), (id, category) => {
        expect(sandboxOfStream(`agent-${id}`)).toBe(id);
        expect(sandboxOfStream(`computer-${id}`)).toBe(computerSandbox(id));
        for (const sandboxId of [id, computerSandbox(id)]) expect(sandboxOfStream(streamOf(sandboxId))).toBe(sandboxId);
        expect(sandboxOfStream(`${category}-${id}`)).toBeNull();
        expect(sandboxOfStream(`${category}-${computerSandbox(id)}`)).toBeNull();
      }),
    );
  });
});
