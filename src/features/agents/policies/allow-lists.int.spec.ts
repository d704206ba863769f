import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { ContainerRuntime } from '../../../runtime/runtime.ts';
import { AllowLists } from './allow-lists.service.ts';

const on = (name: ContainerRuntime['name']) => new AllowLists({ name } as ContainerRuntime);
const list = { allow: ['api.example.com'] };

describe('a list of names', () => {
  it('is refused with a sentence on the local runtime, which can hold no agent to it', () => {
    expect(() => on('local').refuseUnsupported(list)).toThrow(ProblemError);
    expect(() => on('local').refuseUnsupported(list)).toThrow('only on a Docker Engine');
  });

  it('is accepted on Docker, and everything else on both runtimes', () => {
    for (const egress of ['internet', 'none', null, undefined] as const) expect(() => on('local').refuseUnsupported(egress)).not.toThrow();
    expect(() => on('docker').refuseUnsupported(list)).not.toThrow();
  });
});
