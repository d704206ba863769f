import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { JsonBounds } from '../../../http/requests/json.ts';

/** The most JSON values of a batch: the points of 50 drags alone are 30,000, and the other fields of each action some hundred. */
const BATCH_PARTS_MAX = 40_000;

/** The bounds of a batch of actions. A batch that exceeds them is refused like any other malformed one. */
export const batchBounds: JsonBounds = {
  partsMax: BATCH_PARTS_MAX,
  refuse: (message) => new ProblemError('invalid_action', `The body ${message}.`, { errors: [{ index: null, field: 'body', message }] }),
};
