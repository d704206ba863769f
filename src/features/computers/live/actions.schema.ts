import type { ApiBodyOptions } from '@nestjs/swagger';

import { BATCH_ACTIONS_MAX } from '../../../desktop/actions/normalise-batch.ts';
import { actionNames } from '../../../desktop/actions/vocabularies.ts';

type Schema = NonNullable<Extract<ApiBodyOptions, { schema: unknown }>['schema']>;

const coordinate: Schema = { type: 'integer', minimum: 0, maximum: 8191 };
const point: Schema = { type: 'array', items: coordinate, minItems: 2, maxItems: 2 };
const xy: Schema = { type: 'object', required: ['x', 'y'], properties: { x: coordinate, y: coordinate } };
const size: Schema = {
  type: 'object',
  description: 'The size in which the caller sees the screen: that of its coordinates and of the pictures. By default the real one.',
  required: ['width', 'height'],
  properties: {
    width: { type: 'integer', minimum: 320, maximum: 2560 },
    height: { type: 'integer', minimum: 240, maximum: 1600 },
  },
};
const shot: Schema = {
  description: 'Whether a picture is wanted, or which.',
  oneOf: [
    { type: 'boolean' },
    {
      type: 'object',
      properties: {
        format: { type: 'string', enum: ['png', 'jpeg', 'webp'] },
        quality: { type: 'integer', minimum: 1, maximum: 100 },
        scale: { type: 'number', minimum: 0.1, maximum: 1 },
        cursor: { type: 'boolean' },
        delay_ms: { type: 'integer', minimum: 0, maximum: 5000 },
      },
    },
  ],
};
const pixels: Schema = { type: 'integer', minimum: -5000, maximum: 5000 };

const action: Schema = {
  type: 'object',
  description:
    'One action: an object of Anthropic’s computer tool with `action`, one of OpenAI’s with `type`, or a tool’s use with `name` and `input`.',
  properties: {
    action: { type: 'string', enum: actionNames('action') },
    type: { type: 'string', enum: actionNames('type') },
    name: { type: 'string' },
    input: { type: 'object' },
    coordinate: point,
    start_coordinate: point,
    x: coordinate,
    y: coordinate,
    button: { type: 'string', enum: ['left', 'right', 'middle', 'wheel', 'back', 'forward'] },
    path: { type: 'array', minItems: 2, maxItems: 200, items: { oneOf: [xy, point] } },
    scroll_direction: { type: 'string', enum: ['up', 'down', 'left', 'right'] },
    scroll_amount: { type: 'integer', minimum: 0, maximum: 50, description: 'Notches of the wheel.' },
    scroll_x: pixels,
    scroll_y: pixels,
    text: { type: 'string', maxLength: 10_000, description: 'What is typed; for `key`, names of keys such as `ctrl+s Return`.' },
    key: { type: 'string', maxLength: 100, description: 'The keys that are held down meanwhile.' },
    keys: { type: ['array', 'null'], maxItems: 10, items: { type: 'string', minLength: 1, maxLength: 40 } },
    repeat: { type: 'integer', minimum: 1, maximum: 100 },
    duration: { type: 'number', minimum: 0, maximum: 60, description: 'Seconds.' },
    delay_ms: { type: 'integer', minimum: 0, maximum: 200 },
    region: { type: 'array', items: coordinate, minItems: 4, maxItems: 4 },
    screenshot: shot,
    display: size,
  },
};

/** The schema of a batch for the OpenAPI document. The body itself is read by `normaliseBatch`. */
export const actionsSchema: Schema = {
  oneOf: [
    {
      type: 'object',
      required: ['actions'],
      properties: {
        actions: { type: 'array', minItems: 1, maxItems: BATCH_ACTIONS_MAX, items: action },
        screenshot: shot,
        display: size,
      },
    },
    action,
  ],
};
