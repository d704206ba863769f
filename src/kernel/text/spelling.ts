/** The spelling of names on one of the two APIs: the Provisioning API and the events, or the REST API. */
export type Spelling = 'snake_case' | 'camelCase';

/** The camelCase spelling of a name in snake_case. */
export type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : Name;

/** An object with its names in camelCase. */
export type CamelCased<T> = { [Name in keyof T as CamelCase<Name & string>]: T[Name] };

/** The snake_case spelling of a name in camelCase. */
export type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${Lowercase<First>}${Rest extends Uncapitalize<Rest> ? '' : '_'}${SnakeCase<Rest>}`
  : Name;

/** An object with its names in snake_case. */
export type SnakeCased<T> = { [Name in keyof T as SnakeCase<Name & string>]: T[Name] };

/** Returns a name that is in snake_case in the caller's spelling. */
export function spelled(name: string, spelling: Spelling): string {
  return spelling === 'snake_case' ? name : name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Returns the object with its names, which are in snake_case, in camelCase. */
export function camelCased<T extends object>(named: T): CamelCased<T> {
  return Object.fromEntries(Object.entries(named).map(([name, value]) => [spelled(name, 'camelCase'), value])) as CamelCased<T>;
}

/** Returns the object with its names, which are in camelCase, in snake_case. */
export function snakeCased<T extends object>(named: T): SnakeCased<T> {
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(named).map(([name, value]) => [snake(name), value])) as SnakeCased<T>;
}
