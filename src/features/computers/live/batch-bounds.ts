import { Refusal } from '../../../kernel/errors/refusal.ts';
import type { JsonBounds } from '../../../http/requests/json.ts';

/** The parts of the largest batch, which are 30,000 of the points of 50 drags alone, and some hundred of the other fields of each action. */
const BATCH_PARTS_MAX = 40_000;

/** The bounds of a batch of actions. One that has more of anything than a batch may have is refused as any other malformed one. */
export const batchBounds: JsonBounds = {
  partsMax: BATCH_PARTS_MAX,
  refuse: (message) => new Refusal('invalid_action', `The body ${message}.`, { errors: [{ index: null, field: 'body', message }] }),
};
