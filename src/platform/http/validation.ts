import { type ValidationError, ValidationPipe } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsInt, isISO8601, IsOptional, Matches, Max, Min } from 'class-validator';

import { type FieldError, Refusal } from '../refusal.ts';

/** Bad fields that one answer names at most. */
const MAX_ERRORS = 100;

/** Holds every DTO to its rules; fields that a DTO does not know are refused by name. */
export function createValidationPipe(): ValidationPipe {
  return new ValidationPipe({
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
  const field = parent === '' ? error.property : `${parent}.${error.property}`;
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
