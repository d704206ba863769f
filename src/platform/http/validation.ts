import { type ArgumentMetadata, type ValidationError, ValidationPipe } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsInt, isISO8601, IsOptional, Matches, Max, Min, registerDecorator } from 'class-validator';

import { type FieldError, Refusal } from '../refusal.ts';
import { shortened } from './json.ts';

/** Bad fields that one answer names at most. */
const MAX_ERRORS = 100;

/** Parameters in one query string. */
const MAX_PARAMETERS = 50;

/** What the framework does with a query takes longer than in proportion to its parameters. The parts of a body are bounded where it is parsed. */
class BoundedValidationPipe extends ValidationPipe {
  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    if (metadata.type === 'query' && typeof value === 'object' && value !== null && Object.keys(value).length > MAX_PARAMETERS)
      throw new Refusal('invalid_request', `There may be ${MAX_PARAMETERS} parameters at most.`);
    return super.transform(value, metadata) as Promise<unknown>;
  }
}

/** Holds every DTO to its rules; fields that a DTO does not know are refused by name. */
export function createValidationPipe(): ValidationPipe {
  return new BoundedValidationPipe({
    whitelist: true,
    forbidNonWhitelisted: true,
    forbidUnknownValues: true,
    transform: true,
    exceptionFactory: (errors) => refusalOf(errors),
  });
}

export function refusalOf(errors: ValidationError[]): Refusal {
  const found = errors.flatMap((error) => fieldErrors(error, '')).slice(0, MAX_ERRORS);
  const detail = found.map(({ field, message }) => `${field}: ${message}`).join('; ');
  return new Refusal('invalid_request', detail === '' ? 'The request is not valid.' : `${detail}.`, { errors: found });
}

function fieldErrors(error: ValidationError, parent: string): FieldError[] {
  const field = shortened(parent === '' ? error.property : `${parent}.${error.property}`);
  const own = Object.entries(error.constraints ?? {}).map(([rule, message]) => ({
    field,
    message: rule === 'whitelistValidation' ? 'is not a known field' : withoutName(message, error.property),
  }));
  return [...own, ...(error.children ?? []).flatMap((child) => fieldErrors(child, field))];
}

/** class-validator begins its sentences with the property's name, which `field` gives already. */
function withoutName(message: string, property: string): string {
  return message.startsWith(`${property} `) ? message.slice(property.length + 1) : message;
}

/** Whether the text has so many characters; a pair of surrogates is one. */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length < min || text.length > 2 * max) return false;
  let count = 0;
  for (let at = 0; at < text.length; at += 1) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) count += 1;
  return count >= min && count <= max;
}

/** A text of so many characters. In the place of class-validator's own, which lists every pair of surrogates to count them. */
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

/** The same without a lower limit. */
export function MaxLength(max: number): PropertyDecorator {
  return Length(0, max);
}

/** A whole number in a query string, which may be absent, from `min` to `max`; anything else is refused, `1e3` and the empty text too. */
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

/** A time in a query string, which may be absent, in ISO 8601; one without an offset is UTC. The member is given as UTC with milliseconds. */
export function TimeQuery(): PropertyDecorator {
  const rules = [
    IsOptional(),
    // False is what no text is: the rule after it refuses that.
    Transform(({ value }: { value: unknown }) => (value === undefined ? undefined : (instantOf(value) ?? false))),
    Matches(/Z$/, { message: 'must be a time in ISO 8601' }),
    ApiProperty({ type: 'string', format: 'date-time', required: false }),
  ];
  return (target, property) => rules.forEach((rule) => rule(target, property));
}

/** The time in UTC with milliseconds; null where the text is none. */
export function instantOf(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > 40 || !isISO8601(text, { strict: true })) return null;
  const hasOffset = /[zZ]$|[+-]\d\d:?\d\d$/.test(text);
  const instant = new Date(hasOffset || !text.includes('T') ? text : `${text}Z`);
  return Number.isNaN(instant.getTime()) ? null : instant.toISOString();
}
