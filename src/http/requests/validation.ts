import { type ArgumentMetadata, type ValidationError, ValidationPipe } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsInt, isISO8601, IsOptional, Matches, Max, Min, registerDecorator } from 'class-validator';

import { type FieldError, ProblemError } from '../../kernel/errors/problem-error.ts';
import { shorten } from './json.ts';

/** The most invalid fields that a response names. */
const ERRORS_MAX = 100;

/** The most parameters in one query string. */
const PARAMETERS_MAX = 50;

/**
 * Bounds the parameters of a query, since the framework's cost grows faster than their number. The parts of a body are bounded when it is
 * parsed.
 */
class BoundedValidationPipe extends ValidationPipe {
  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    if (metadata.type === 'query' && typeof value === 'object' && value !== null && Object.keys(value).length > PARAMETERS_MAX)
      throw new ProblemError('invalid_request', `There may be ${PARAMETERS_MAX} parameters at most.`);
    return super.transform(value, metadata) as Promise<unknown>;
  }
}

/** Creates the pipe that validates every DTO; unknown fields are refused by name. */
export function createValidationPipe(): ValidationPipe {
  return new BoundedValidationPipe({
    whitelist: true,
    forbidNonWhitelisted: true,
    forbidUnknownValues: true,
    transform: true,
    exceptionFactory: (errors) => validationProblem(errors),
  });
}

export function validationProblem(errors: ValidationError[]): ProblemError {
  const found = errors.flatMap((error) => fieldErrors(error, '')).slice(0, ERRORS_MAX);
  const detail = found.map(({ field, message }) => `${field}: ${message}`).join('; ');
  return new ProblemError('invalid_request', detail === '' ? 'The request is not valid.' : `${detail}.`, { errors: found });
}

function fieldErrors(error: ValidationError, parent: string): FieldError[] {
  const field = shorten(parent === '' ? error.property : `${parent}.${error.property}`);
  const own = Object.entries(error.constraints ?? {}).map(([rule, message]) => ({
    field,
    message: rule === 'whitelistValidation' ? 'is not a known field' : withoutName(message, error.property),
  }));
  return [...own, ...(error.children ?? []).flatMap((child) => fieldErrors(child, field))];
}

/** Removes the property's name, with which class-validator begins its messages, because `field` contains it already. */
function withoutName(message: string, property: string): string {
  return message.startsWith(`${property} `) ? message.slice(property.length + 1) : message;
}

/** Returns whether the length of the text in characters is within the bounds; a surrogate pair counts as one. */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length < min || text.length > 2 * max) return false;
  let count = 0;
  for (let at = 0; at < text.length; at += 1) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) count += 1;
  return count >= min && count <= max;
}

/**
 * Requires a text with a length in these bounds. It replaces class-validator's own decorator, which lists every surrogate pair to count
 * them.
 */
export function Length(min: number, max: number): PropertyDecorator {
  return (target, property) =>
    registerDecorator({
      name: 'length',
      target: target.constructor,
      propertyName: property as string,
      validator: {
        validate: (value: unknown) => typeof value === 'string' && hasLength(value, min, max),
        defaultMessage: () => (min === 0 ? `must have at most ${max} characters` : `must have ${min} to ${max} characters`),
      },
    });
}

/** Requires a text of at most that many characters. */
export function MaxLength(max: number): PropertyDecorator {
  return Length(0, max);
}

/**
 * Requires a whole number from `min` to `max` in a query string, where it may be absent. Anything else is refused, also `1e3` and the empty
 * text.
 */
export function IntegerQuery(min: number, max: number): PropertyDecorator {
  const rules = [
    Transform(({ value }: { value: unknown }) => (typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? Number(value) : value)),
    IsInt(),
    Min(min),
    Max(max),
    ApiProperty({ type: 'integer', minimum: min, maximum: max, required: false }),
  ];
  return (target, property) => rules.forEach((rule) => rule(target, property));
}

/**
 * Requires a time in ISO 8601 in a query string, where it may be absent; without an offset it is UTC. The member becomes UTC with
 * milliseconds.
 */
export function TimeQuery(): PropertyDecorator {
  const rules = [
    IsOptional(),
    // The value false is not a text, so the next rule refuses it.
    Transform(({ value }: { value: unknown }) => (value === undefined ? undefined : (instantOf(value) ?? false))),
    Matches(/Z$/, { message: 'must be a time in ISO 8601' }),
    ApiProperty({ type: 'string', format: 'date-time', required: false }),
  ];
  return (target, property) => rules.forEach((rule) => rule(target, property));
}

/** Returns the time in UTC with ms; null if the text is not a time. */
export function instantOf(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > 40 || !isISO8601(text, { strict: true })) return null;
  const hasOffset = /[zZ]$|[+-]\d\d:?\d\d$/.test(text);
  const instant = new Date(hasOffset || !text.includes('T') ? text : `${text}Z`);
  return Number.isNaN(instant.getTime()) ? null : instant.toISOString();
}
