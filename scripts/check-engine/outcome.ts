/** The result of a step that did not simply succeed. */
export interface Exception {
  state: 'differs' | 'not tried';
  why: string;
}

/** Returns the result of a step whose claim the engine can't fulfil by its documented nature. */
export const differs = (why: string): Exception => ({ state: 'differs', why });

/** Returns the result of a step for which this machine or this engine lacks a requirement. */
export const notTried = (why: string): Exception => ({ state: 'not tried', why });

/** Throws unless the condition holds. */
export function check(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}
