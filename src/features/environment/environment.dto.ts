import { Allow, IsBoolean, ValidateIf } from 'class-validator';

import { AgentIdMember, checked, Given } from '../agents/index.ts';
import { invalidField } from '../../kernel/errors/problem-error.ts';
import { maskOf, secretNameProblem, valueProblem } from '../secrets/index.ts';
import type { ValueSource } from './environment.commands.ts';
import { keyProblem, type KeyedVariable } from './environment.decider.ts';

const text = (problem: (value: string) => string | null) => (value: unknown) =>
  typeof value === 'string' ? problem(value) : 'must be a string';

export class VariablePathDto {
  @AgentIdMember()
  agentId: string;

  @Allow()
  key: string;
}

export class ReplaceVariableDto {
  /** The value of the variable, at most 32 KB; absent if `secret` is present. */
  @ValidateIf(({ secret, value }: ReplaceVariableDto) => secret === undefined || value !== undefined)
  @checked('variableValue', text(valueProblem))
  value?: string;

  /** The name of the account's secret from which the variable takes its value, in place of `value`. */
  @Given()
  @checked('secretName', text(secretNameProblem))
  secret?: string;
}

export class SetVariableDto extends ReplaceVariableDto {
  /** The name of the variable: letters, digits and _; not PORT, and not beginning with MOORING_. */
  @checked('variableKey', text(keyProblem))
  key: string;

  /** The value true means that the variable is encrypted at rest and masked in every response. One with `secret` always is. */
  @Given()
  @IsBoolean()
  is_secret?: boolean;
}

/** Returns where the variable takes its value from. Throws `invalid_request` unless exactly one of `value` and `secret` is present. */
export function valueSourceOf({ value, secret }: ReplaceVariableDto): ValueSource {
  if (secret === undefined) return { value: value ?? '' };
  if (value !== undefined) throw invalidField('secret', 'must not be given beside value');
  return { secret };
}

/** Returns whether the variable is to be secret. Throws `invalid_request` if a variable with `secret` is to be readable. */
export function secrecyOf({ secret, is_secret }: SetVariableDto): boolean {
  if (secret === undefined) return is_secret ?? false;
  if (is_secret === false) throw invalidField('is_secret', 'must not be false, since the value of a secret is never readable');
  return true;
}

export class VariableDto {
  key: string;
  /** The value of the variable, masked if it is secret. */
  value: string;
  is_secret: boolean;
  /** The name of the account's secret from which the variable takes its value; absent if it has a value of its own. */
  secret?: string;
  updated_at: string;
}

export function toVariableDto({ key, isSecret, value, mask, secret, setAt }: KeyedVariable): VariableDto {
  const shown = isSecret ? (mask ?? maskOf('')) : (value ?? '');
  return { key, value: shown, is_secret: isSecret, ...(secret === null ? {} : { secret }), updated_at: setAt };
}
