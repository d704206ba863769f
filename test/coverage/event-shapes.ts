import ts from 'typescript';

/**
 * The shape of a JSON value: `json` for any, `string`, `"a" | null`, `[shape]` of an array's items, members of an object (`name?` may be absent, and `[any]` are
 * those of any other name), or one of several.
 */
export type Shape = string | [Shape] | { [member: string]: Shape } | { anyOf: Shape[] };

/** Stands for the members of an object that may have any name. */
const ANY = '[any]';

/** Returns, for each file, the shapes of the data that it declares with `defineEvent<Data>()('Type', …)`, by type. */
export function declaredShapes(files: string[]): Map<string, Shape>[] {
  const program = ts.createProgram(files, {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    lib: ['lib.es2023.d.ts'],
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    allowImportingTsExtensions: true,
  });
  const checker = program.getTypeChecker();
  const visit = (node: ts.Node, shapes: Map<string, Shape>): Map<string, Shape> => {
    if (ts.isCallExpression(node) && ts.isCallExpression(node.expression) && node.expression.expression.getText() === 'defineEvent') {
      const [type] = node.arguments;
      const [data] = node.expression.typeArguments ?? [];
      if (type && ts.isStringLiteral(type) && data) shapes.set(type.text, shapeOf(checker, checker.getTypeFromTypeNode(data)));
    }
    ts.forEachChild(node, (child) => void visit(child, shapes));
    return shapes;
  };
  return files.map((file) => visit(program.getSourceFile(file) as ts.SourceFile, new Map()));
}

function shapeOf(checker: ts.TypeChecker, type: ts.Type): Shape {
  // Any JSON contains itself.
  if (type.aliasSymbol?.name === 'Json') return 'json';
  if (type.isUnion()) return oneOf(type.types.filter(isStored).map((part) => shapeOf(checker, part)));
  if (type.isStringLiteral() || type.isNumberLiteral()) return JSON.stringify(type.value);
  if (type.flags & (ts.TypeFlags.String | ts.TypeFlags.Number | ts.TypeFlags.BooleanLike | ts.TypeFlags.Null))
    return checker.typeToString(type);
  if (checker.isArrayType(type)) return [shapeOf(checker, checker.getTypeArguments(type as ts.TypeReference)[0] as ts.Type)];
  if (!(type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)))
    throw new Error(`${checker.typeToString(type)} is no type of an event's data`);
  const members = checker.getPropertiesOfType(type).map((member) => {
    const optional = member.flags & ts.SymbolFlags.Optional;
    return [`${member.name}${optional ? '?' : ''}`, shapeOf(checker, checker.getTypeOfSymbol(member))];
  });
  const others = checker.getIndexTypeOfType(type, ts.IndexKind.String);
  if (others !== undefined && !(others.flags & ts.TypeFlags.Never)) members.push([ANY, shapeOf(checker, others)]);
  return Object.fromEntries(members) as Shape;
}

function isStored(type: ts.Type): boolean {
  return !(type.flags & ts.TypeFlags.Undefined);
}

/** Joins plain parts into one text, in an order that does not depend on the order in the source. */
function oneOf(parts: Shape[]): Shape {
  const texts = parts.filter((part) => typeof part === 'string');
  const plain = [...new Set(texts.map((text) => (text === 'true' || text === 'false' ? 'boolean' : text)))].toSorted().join(' | ');
  const others = parts.filter((part) => typeof part !== 'string');
  if (others.length === 0) return plain;
  const all = plain === '' ? others : [plain, ...others];
  return all.length === 1 ? (all[0] as Shape) : { anyOf: all };
}

/** Returns the parts of the value that do not fit the shape, with their places; an empty list if all fit. */
export function misfits(shape: Shape, value: unknown, place = 'data'): string[] {
  if (shape === 'json') return [];
  if (typeof shape === 'string') {
    const fits = shape.split(' | ').some((name) => (name === nameOf(value) ? true : name === JSON.stringify(value)));
    return fits ? [] : [`${place} is ${JSON.stringify(value)}, not ${shape}`];
  }
  if (Array.isArray(shape)) {
    if (!Array.isArray(value)) return [`${place} is no array`];
    return value.flatMap((item, index) => misfits(shape[0], item, `${place}[${index}]`));
  }
  if ('anyOf' in shape) {
    const fits = (shape.anyOf as Shape[]).some((part) => misfits(part, value).length === 0);
    return fits ? [] : [`${place} is none of what it may be`];
  }
  if (nameOf(value) !== 'object') return [`${place} is no object`];
  const members = value as Record<string, unknown>;
  const { [ANY]: any, ...named } = shape;
  const known = new Map(Object.entries(named).map(([name, part]) => [name.replace(/\?$/, ''), { part, optional: name.endsWith('?') }]));
  const others = Object.keys(members).filter((name) => !known.has(name));
  return [
    ...others.flatMap((name) => (any === undefined ? [`${place}.${name} is no member`] : misfits(any, members[name], `${place}.${name}`))),
    ...[...known].flatMap(([name, { part, optional }]) => {
      if (name in members) return misfits(part, members[name], `${place}.${name}`);
      return optional ? [] : [`${place}.${name} is missing`];
    }),
  ];
}

function nameOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
