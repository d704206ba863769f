/** One member of an object whose value differs. A null stands for an absent member. */
export interface Difference {
  /** The path from the root to the member, such as `/agent/status` or `/env/TOKEN/value`. */
  path: string;
  before: unknown;
  after: unknown;
}

/** Returns the differences between `before` and `after`. A list, or an object that only one side has, is compared as a whole. */
export function differences(before: unknown, after: unknown, path = ''): Difference[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => differences(before[name], after[name], `${path}/${name}`));
  }
  return JSON.stringify(before ?? null) === JSON.stringify(after ?? null) ? [] : [{ path, before: before ?? null, after: after ?? null }];
}

/** Returns whether a change at one path affects the value at the other. */
export function overlaps(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}/`) || other.startsWith(`${path}/`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
