import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';

import { checked, Given } from '../agents/index.ts';
import { keyProblem, VARIABLES_MAX } from '../environment/index.ts';
import { secretNameProblem, valueProblem } from '../secrets/index.ts';

/** The value of a variable that is not secret, or a reference to a secret of the account. */
export type VariableInput = string | { secret: string };

/** The most bytes of all variables together, as JSON, since an agent and its variables are stored in one append. */
const VARIABLES_BYTES_MAX = 800_000;
/** The most invalid variables that one message lists. */
const NAMED_MAX = 10;

/** Accepts an object of variables by name. */
export function VariablesField(): PropertyDecorator {
  const secret = { type: 'object', properties: { secret: { type: 'string' } }, required: ['secret'], additionalProperties: false };
  return applyDecorators(
    Given(),
    checked('variables', variablesProblem),
    ApiProperty({
      selfRequired: false,
      type: 'object',
      description: "The agent's variables by name: a value that is not secret, or the secret of the account that has the value.",
      additionalProperties: { oneOf: [{ type: 'string' }, secret] },
    }),
  );
}

function variablesProblem(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'must be an object of strings';
  const entries = Object.entries(value);
  if (entries.length > VARIABLES_MAX) return `must have at most ${VARIABLES_MAX} variables`;
  const bad = entries.flatMap(([key, given]) => {
    const problem = keyProblem(key) ?? inputProblem(given);
    return problem === null ? [] : [`${JSON.stringify(key.slice(0, 50))} ${problem}`];
  });
  if (bad.length > 0) return bad.slice(0, NAMED_MAX).join('; ');
  return Buffer.byteLength(JSON.stringify(value)) > VARIABLES_BYTES_MAX ? `must have at most ${VARIABLES_BYTES_MAX} bytes in all` : null;
}

function inputProblem(given: unknown): string | null {
  if (typeof given === 'string') return valueProblem(given);
  const isLink = typeof given === 'object' && given !== null && Object.keys(given).join() === 'secret';
  const secret = isLink ? (given as { secret: unknown }).secret : undefined;
  if (typeof secret !== 'string') return 'must be a string or {"secret": "…"}';
  const problem = secretNameProblem(secret);
  return problem === null ? null : `names a secret that ${problem}`;
}
