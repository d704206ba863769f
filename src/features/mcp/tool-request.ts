import type { FieldError } from '../../kernel/errors/problem-error.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { OwnRequest } from '../../http/server/own-routes.ts';
import { type ArgumentLocation, JSON_BODY, type ToolInput } from './tool-schema.ts';
import type { Tool } from './tool.ts';

export type Arguments = Readonly<Record<string, unknown>>;

/** The route of a tool, and its arguments. */
export interface ToolRoute {
  tool: Tool;
  method: string;
  /** The pattern of the path, as the OpenAPI document has it: `/api/agents/{agentId}`. */
  path: string;
  input: ToolInput;
}

/**
 * Returns the request to the tool's route, with a wait of `waitSeconds` if the tool waits. The route validates the values. This function
 * only checks that each argument has a place in the request and can be sent there. Throws `invalid_request`.
 */
export function requestOf({ tool, method, path, input }: ToolRoute, given: Arguments, waitSeconds: number): OwnRequest {
  const errors: FieldError[] = [];
  const refuse = (field: string, message: string) => void errors.push({ field, message });
  const values = withBounds(tool, given, refuse);
  const query = new URLSearchParams();
  const headers: Record<string, string> = tool.waits === true ? { prefer: `wait=${waitSeconds}` } : {};
  const members: Record<string, unknown> = {};
  let file = '';
  let target = path;
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const place = input.locations.get(name);
    if (place === undefined && input.body !== JSON_BODY) refuse(name, 'is not a known argument');
    else if (place === undefined) members[name] = value;
    else if (!fits(place, value)) refuse(name, `must be ${forms[place.in]}`);
    else if (place.in === 'body') file = String(value);
    else if (place.in === 'path') target = target.replace(`{${place.name}}`, encodeURIComponent(value));
    else if (place.in === 'query') query.append(place.name, String(value));
    else headers[place.name] = String(value);
  }
  for (const [name, place] of input.locations)
    if ((place.in === 'path' || place.in === 'body') && values[name] === undefined) refuse(name, 'is missing');
  if (errors.length > 0) throw invalid(errors);
  return {
    method,
    path: query.size === 0 ? target : `${target}?${query.toString()}`,
    headers: input.body === null ? headers : { ...headers, 'content-type': input.body },
    body: input.body === null ? null : input.body === JSON_BODY ? JSON.stringify(members) : file,
  };
}

/** Returns the arguments, with defaults for those that the tool bounds. */
function withBounds({ bounds = {}, next }: Tool, given: Arguments, refuse: (field: string, message: string) => void): Arguments {
  for (const [name, most] of Object.entries(bounds)) {
    const value = given[name];
    if (typeof value === 'number' && value > most)
      refuse(name, `must not be greater than ${most}${next === undefined ? '' : `; ${toolName(next)} may help`}`);
  }
  return { ...bounds, ...given };
}

const forms: Record<ArgumentLocation['in'], string> = {
  path: 'a text',
  query: 'a text or a number',
  header: 'a text of printable ASCII characters',
  body: 'a text',
};

function fits(place: ArgumentLocation, value: unknown): value is string | number | boolean {
  if (place.in === 'query' && (typeof value === 'number' || typeof value === 'boolean')) return true;
  if (typeof value !== 'string' || !value.isWellFormed()) return false;
  if (place.in === 'path') return value !== '';
  return place.in === 'query' || place.in === 'body' || /^[\x20-\x7e]{1,255}$/.test(value);
}

function invalid(errors: FieldError[]): ProblemError {
  return new ProblemError('invalid_request', `${errors.map(({ field, message }) => `${field}: ${message}`).join('; ')}.`, { errors });
}

/** Returns the name of the operation's tool. */
export function toolName(operationId: string): string {
  return operationId.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
