import { ApiProperty } from '@nestjs/swagger';
import { registerDecorator, ValidateIf } from 'class-validator';

import { hasLength } from '../../../http/requests/validation.ts';
import { ALLOWED_NAMES_MAX, allowListMessage } from '../../../kernel/network/allow-list.ts';
import { branchProblem, repositoryUrlProblem } from '../../../builds/git/repository-url.ts';
import { parseImageReference } from '../../../kernel/network/image-reference.ts';

/** A rule for a text field of an agent: returns what is wrong, or null. Both create routes and PATCH apply the same rules. */
export type TextRule = (value: string) => string | null;

/**
 * Characters that a name must not contain: control characters, and those that change the direction of text, which can make one name look
 * like another.
 */
const invisible = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
/** Control characters. A description may contain line breaks and tabs, but no others. */
const controls = /[\p{Cc}\p{Cs}]/u;

export const nameRule: TextRule = (name) =>
  !hasLength(name, 1, 63) || name.trim() === '' || invisible.test(name)
    ? 'must have 1 to 63 characters, none of them a control character'
    : null;

export const externalIdRule: TextRule = (id) =>
  !hasLength(id, 1, 255) || invisible.test(id) ? 'must have 1 to 255 characters, none of them a control character' : null;

export const descriptionRule: TextRule = (text) =>
  !hasLength(text, 0, 2_000) || controls.test(text.replaceAll(/[\n\r\t]/g, ''))
    ? 'must have at most 2000 characters, none of them a control character'
    : null;

export const imageNameRule: TextRule = (name) =>
  parseImageReference(name) === null
    ? 'must be an image reference: [registry/]name[:tag][@sha256:digest], at most 255 characters, and not a bare id or digest'
    : null;

export const repoUrlRule: TextRule = repositoryUrlProblem;

export const branchRule: TextRule = branchProblem;

/** Returns what is wrong with an idle time in seconds, or null. An idle time of 0 means that the agent never sleeps. */
export function idleTtlMessage(value: unknown): string | null {
  const fits = Number.isInteger(value) && (value === 0 || ((value as number) >= 30 && (value as number) <= 86_400));
  return fits ? null : 'must be 0 (never sleeps) or a whole number of seconds from 30 to 86400';
}

/** Returns what is wrong with the value of `egress`, or null. */
export function egressMessage(value: unknown): string | null {
  if (value === null || value === 'internet' || value === 'none') return null;
  return typeof value === 'object' ? allowListMessage(value) : 'must be "internet", "none", null or {"allow": [...]}';
}

/** Allows the field to be absent. Unlike `@IsOptional`, it does not allow null unless the rules do. */
export function OptionalField(): PropertyDecorator {
  return ValidateIf((_, value) => value !== undefined);
}

/** Accepts a text that the rule allows, and leaves it unchanged. With `nullable` it also accepts null. */
export function Text(rule: TextRule, { nullable = false } = {}): PropertyDecorator {
  return validatedBy('text', (value) => {
    if (value === null && nullable) return null;
    return typeof value === 'string' ? rule(value) : 'must be a string';
  });
}

/** Accepts 0, or 30 to 86 400 seconds. */
export function IdleTtl(): PropertyDecorator {
  return validatedBy('idleTtl', idleTtlMessage);
}

/** Allows "internet", "none", null and a list of names. */
export function Egress(): PropertyDecorator {
  const rules = [validatedBy('egress', egressMessage), EgressShape({ required: false })];
  return (target, property) => rules.forEach((rule) => rule(target, property));
}

/** Describes `egress` for the OpenAPI document, because the compiler plugin does not see the members of the type. */
export function EgressShape({ required = true } = {}): PropertyDecorator {
  const names = { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: ALLOWED_NAMES_MAX };
  return ApiProperty({
    required,
    // The compiler plugin describes it as an object or null.
    type: undefined,
    nullable: false,
    oneOf: [
      { type: 'string', enum: ['internet', 'none'] },
      { type: 'object', properties: { allow: names }, required: ['allow'], additionalProperties: false },
      { type: 'null' },
    ],
  });
}

/** Returns a decorator for a rule: `check` returns what is wrong with the value, or null. */
export function validatedBy(name: string, check: (value: unknown) => string | null): PropertyDecorator {
  return (target, property) =>
    registerDecorator({
      name,
      target: target.constructor,
      propertyName: property as string,
      validator: {
        validate: (value: unknown) => check(value) === null,
        defaultMessage: (of) => check(of?.value) ?? 'is not valid',
      },
    });
}
