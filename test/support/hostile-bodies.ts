/** The most bytes of a body. */
const MB = 1_048_576;

const many = (count: number, value: string) => Array.from({ length: count }, () => value).join(',');
const members = (count: number, value: string) => Array.from({ length: count }, (_, index) => `"m${index}":${value}`).join(',');

/** JSON values that cost a careless program more than their size suggests. */
const values: Record<string, string> = {
  'one long text': `"${'x'.repeat(1_000_000)}"`,
  'pairs of surrogates': `"${'😀'.repeat(250_000)}"`,
  'marks that are composed': `"a${'\u0300\u0323'.repeat(200_000)}"`,
  'escaped characters': `"${'\\u0041'.repeat(170_000)}"`,
  'an array of 500,000': `[${many(500_000, '1')}]`,
  'an array of 250 texts': `[${many(250, `"${'y'.repeat(4_000)}"`)}]`,
  '70,000 members': `{${members(70_000, '1')}}`,
  '250 members with texts': `{${members(250, `"${'z'.repeat(4_000)}"`)}}`,
  'nested 500,000 deep': '['.repeat(500_000) + ']'.repeat(500_000),
  'a number of a million digits': '9'.repeat(1_000_000),
};

/** Bodies that are hostile to every route. */
const whole: Record<string, string> = {
  'nothing but brackets': '['.repeat(MB),
  'nothing but braces': '{"":'.repeat(MB / 4),
  'nothing but commas': `[${','.repeat(MB - 2)}]`,
  'a text without an end': `"${'\\'.repeat(MB - 1)}`,
  'one member again and again': `{${many(150_000, '"a":1')}}`,
  'a member with a long name': `{"${'n'.repeat(1_000_000)}":1}`,
  '70,000 members': `{${members(70_000, '1')}}`,
  '70,000 members that are arrays': `{${members(70_000, '[]')}}`,
  '250 unknown members with long names': `{${Array.from({ length: 250 }, (_, index) => `"${index}${'n'.repeat(4_000)}":{}`).join(',')}}`,
  'names that reach a prototype': `{"name":{${many(200, '"__proto__":{"x":1}')}}}`,
  'an array in the place of an object': `[${many(200_000, '{}')}]`,
  blanks: ' '.repeat(MB),
};

/** Returns bodies of at most 1 MB, by description, in which the field has a hostile value. */
export function hostileFor(field: string): [string, string][] {
  return Object.entries(values).map(([what, value]) => [`${field}: ${what}`, `{"${field}":${value}}`]);
}

/** Hostile bodies for a route with any fields. */
export const hostileBodies: readonly [string, string][] = [...Object.entries(whole), ...hostileFor('unknown')];
