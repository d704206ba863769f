import type { Tool } from './tool.ts';

/** A JSON schema. */
export type Schema = Readonly<Record<string, unknown>>;

/** The parts of an OpenAPI operation that tools need. */
export interface DocumentedOperation {
  summary?: string;
  parameters?: readonly DocumentedParameter[];
  requestBody?: { required?: boolean; content: Readonly<Record<string, { schema?: unknown }>> };
}

interface DocumentedParameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: unknown;
}

/** The location of an argument in the request. Arguments without one are members of the JSON body. */
export interface ArgumentLocation {
  /** `body` if the argument is the whole body. */
  in: 'path' | 'query' | 'header' | 'body';
  /** The name there. */
  name: string;
}

/** The arguments of a tool, and their locations in the request. */
export interface ToolInput {
  /** The schema of all arguments, as MCP clients see it. */
  schema: { type: 'object'; properties: Record<string, Schema>; required: string[]; additionalProperties: false };
  locations: ReadonlyMap<string, ArgumentLocation>;
  /** The media type of the body; null if there is none. */
  body: typeof JSON_BODY | typeof FILE_BODY | null;
}

export const JSON_BODY = 'application/json';
/** The media type of a body that is stored as a file. */
export const FILE_BODY = 'application/octet-stream';

/** The headers that are arguments, with their argument names. Other headers belong to the transmission. */
const headerArguments: Readonly<Record<string, string>> = { 'idempotency-key': 'idempotency_key', range: 'range' };
/** The argument that is the whole body of a file. */
const FILE_TEXT = 'content';
/** The greatest depth of references between schemas. */
const DEPTH_MAX = 20;

/**
 * Returns the input of the tool: the parameters of its operation and the members of its body. A file body is one more argument, its text.
 * Throws if two arguments have the same name, or if the body is neither a file nor a JSON object.
 */
export function toolInput(
  { operationId, bounds = {}, omits = [] }: Tool,
  operation: DocumentedOperation,
  schemas: Readonly<Record<string, unknown>>,
): ToolInput {
  const locations = new Map<string, ArgumentLocation>();
  const properties: Record<string, Schema> = {};
  const required: string[] = [];
  const add = (name: string, schema: Schema, isRequired: boolean) => {
    if (Object.hasOwn(properties, name)) throw new Error(`${operationId} takes two arguments with the name ${name}`);
    const most = bounds[name];
    properties[name] = most === undefined ? schema : { ...schema, maximum: most, default: most };
    if (isRequired) required.push(name);
  };
  for (const parameter of operation.parameters ?? []) {
    const place = placeOf(parameter);
    if (place === null || omits.includes(place.argument)) continue;
    locations.set(place.argument, place);
    const { description, schema, required: isRequired = false } = parameter;
    add(place.argument, { ...inlined(schema, schemas), ...(description === undefined ? {} : { description }) }, isRequired);
  }
  const body = mediaTypeOf(operation);
  if (body === FILE_BODY) {
    locations.set(FILE_TEXT, { in: 'body', name: FILE_TEXT });
    add(FILE_TEXT, { type: 'string', description: 'The text of the file.' }, true);
  } else if (body === JSON_BODY) {
    const { properties: members = {}, required: needed = [] } = bodyOf(operationId, operation, schemas);
    for (const [name, schema] of Object.entries(members)) add(name, schema, needed.includes(name));
  }
  const known = [...Object.keys(properties), ...(operation.parameters ?? []).map(({ name }) => name)];
  const unknown = [...Object.keys(bounds), ...omits].filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`${operationId} takes no ${unknown.join(', ')}`);
  return { schema: { type: 'object', properties, required, additionalProperties: false }, locations, body };
}

function mediaTypeOf({ requestBody }: DocumentedOperation): ToolInput['body'] {
  if (requestBody === undefined) return null;
  return requestBody.content[FILE_BODY] === undefined ? JSON_BODY : FILE_BODY;
}

function placeOf({ name, in: place }: DocumentedParameter): (ArgumentLocation & { argument: string }) | null {
  if (place === 'path' || place === 'query') return { in: place, name, argument: name };
  const argument = place === 'header' ? headerArguments[name.toLowerCase()] : undefined;
  return argument === undefined ? null : { in: 'header', name: name.toLowerCase(), argument };
}

interface BodySchema {
  type?: unknown;
  oneOf?: BodySchema[];
  properties?: Record<string, Schema>;
  required?: string[];
}

function bodyOf(operationId: string, { requestBody }: DocumentedOperation, schemas: Readonly<Record<string, unknown>>): BodySchema {
  const body = inlined(requestBody?.content[JSON_BODY]?.schema, schemas) as BodySchema;
  // A tool uses the first form of a body with several: one is enough for models, and many clients support no alternatives.
  const { oneOf: [form = body] = [] } = body;
  if (form.type !== 'object') throw new Error(`the body of ${operationId} is no JSON object`);
  return form;
}

/** Returns the schema with every reference resolved. */
function inlined(schema: unknown, schemas: Readonly<Record<string, unknown>>, depth = 0): Schema {
  return resolved(schema ?? {}, schemas, depth) as Schema;
}

function resolved(part: unknown, schemas: Readonly<Record<string, unknown>>, depth: number): unknown {
  if (typeof part !== 'object' || part === null) return part;
  if (Array.isArray(part)) return part.map((item) => resolved(item, schemas, depth));
  const { $ref, ...rest } = part as { $ref?: string };
  if ($ref !== undefined) {
    const name = $ref.replace('#/components/schemas/', '');
    if (!Object.hasOwn(schemas, name) || depth >= DEPTH_MAX) throw new Error(`the reference ${$ref} leads nowhere`);
    return { ...inlined(schemas[name], schemas, depth + 1), ...(resolved(rest, schemas, depth) as object) };
  }
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, resolved(value, schemas, depth)]));
}
