/** One member that is not what it was; null stands for one that is not there. */
export interface Difference {
  /** From the whole inwards: `/agent/status`, `/env/TOKEN/value`. */
  path: string;
  before: unknown;
  after: unknown;
}

/** What to change so that `before` becomes `after`. A list, and an object that is on one side only, is one whole. */
export function differences(before: unknown, after: unknown, path = ''): Difference[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => differences(before[name], after[name], `${path}/${name}`));
  }
  return JSON.stringify(before ?? null) === JSON.stringify(after ?? null) ? [] : [{ path, before: before ?? null, after: after ?? null }];
}

/** Whether a change at the one path changes what stands at the other. */
export function touches(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}/`) || other.startsWith(`${path}/`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
