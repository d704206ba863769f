import { Allow, IsBoolean } from 'class-validator';

import { AgentIdMember, checked, Given } from '../agents/index.ts';
import { keyProblem, valueProblem, type KeyedVariable } from './environment.decider.ts';

const text = (problem: (value: string) => string | null) => (value: unknown) =>
  typeof value === 'string' ? problem(value) : 'must be a string';

export class VariablePathDto {
  @AgentIdMember()
  agentId: string;

  @Allow()
  key: string;
}

export class ReplaceVariableDto {
  /** The value of the variable, at most 32 KB. */
  @checked('variableValue', text(valueProblem))
  value: string;
}

export class SetVariableDto extends ReplaceVariableDto {
  /** The name of the variable: letters, digits and _; not PORT, and not beginning with MOORING_. */
  @checked('variableKey', text(keyProblem))
  key: string;

  /** The value true means that the variable is encrypted at rest and masked in every response. */
  @Given()
  @IsBoolean()
  is_secret?: boolean;
}

export class VariableDto {
  key: string;
  /** The value of the variable, masked if it is secret. */
  value: string;
  is_secret: boolean;
  updated_at: string;
}

export function toVariableDto({ key, isSecret, value, mask, setAt }: KeyedVariable): VariableDto {
  return { key, value: (isSecret ? mask : value) ?? '', is_secret: isSecret, updated_at: setAt };
}
