import type { ActionErrorCode, Batch, BatchStep, CanonicalAction, NormalisedBatch, Size } from './canonical-actions.ts';
import { FieldReader, isObject, type CodedError, type Json } from './field-reader.ts';
import { actionNames, builderOf, type Vocabulary } from './vocabularies.ts';

export const BATCH_ACTIONS_MAX = 50;
/** The longest sum of the waits of a batch, in seconds. */
export const BATCH_SECONDS_MAX = 120;
/** The most errors that a response lists. */
const ERRORS_MAX = 100;

/** The fields of a tool use that do not concern the action. */
const blockFields = ['id', 'toolset_name', 'caller', 'cache_control'];
/** The tool of earlier versions without the toolset, whose input contains the name of the action. */
const WHOLE_TOOL = 'computer';

/**
 * Normalizes a body to a batch for a desktop whose screen has this size. The body is one action or `{actions}`; an action is an object of
 * Anthropic with `action`, an object of OpenAI with `type`, or a tool use with `name` and `input`. Everything is checked, and nothing is
 * thrown.
 */
export function normaliseBatch(body: unknown, screen: Size): NormalisedBatch {
  const errors: CodedError[] = [];
  const batch = isObject(body) && Object.hasOwn(body, 'actions') ? manyOf(body, screen, errors) : singleOf(body, screen, errors);
  if (errors.length === 0) checkLength(batch, errors);
  if (errors.length === 0) return { ok: true, batch };
  const told = errors.slice(0, ERRORS_MAX).map(({ index, field, message }) => ({ index, field, message }));
  return { ok: false, code: codeOf(errors), errors: told };
}

/** Returns the code of the response. A malformed action takes precedence over a well-formed one that is not possible. */
function codeOf(errors: CodedError[]): ActionErrorCode {
  const worst = errors.find(({ code }) => code === 'invalid_action') ?? errors[0];
  return worst?.code ?? 'invalid_action';
}

/** The picture after a single action is the one at the end of the batch. */
function singleOf(body: unknown, screen: Size, errors: CodedError[]): Batch {
  const step = stepOf(body, 0, { screen, display: screen, errors });
  if (step === null) return { steps: [], shot: null, display: screen };
  return { steps: [{ ...step, shot: null }], shot: step.shot, display: step.display };
}

function manyOf(body: Json, screen: Size, errors: CodedError[]): Batch {
  const fields = new FieldReader(body, { index: null, prefix: '' }, errors, screen, screen);
  fields.ignore('actions');
  const display = fields.size('display') ?? screen;
  const shot = fields.shot('screenshot');
  fields.end('a batch');
  const { actions } = body;
  if (!Array.isArray(actions) || actions.length === 0) {
    fields.refuse('actions', `must be a list of 1 to ${BATCH_ACTIONS_MAX} actions`);
    return { steps: [], shot, display };
  }
  if (actions.length > BATCH_ACTIONS_MAX) fields.refuse('actions', `must have at most ${BATCH_ACTIONS_MAX} actions`);
  const steps = actions.slice(0, BATCH_ACTIONS_MAX).map((action, index) => stepOf(action, index, { screen, display, errors }));
  return { steps: steps.filter((step) => step !== null), shot, display };
}

interface Context {
  screen: Size;
  display: Size;
  errors: CodedError[];
}

/** Returns null if the action is so malformed that its fields can't be read. */
function stepOf(given: unknown, index: number, context: Context): BatchStep | null {
  const refuse = (field: string, message: string) => {
    context.errors.push({ index, field, message, code: 'invalid_action' });
    return null;
  };
  if (!isObject(given)) return refuse('action', 'must be an object');
  const isUse = Object.hasOwn(given, 'name') || Object.hasOwn(given, 'input');
  const action = isUse ? inputOf(given, index, context) : given;
  if (action === null) return null;
  const both = ['action', 'type'].filter((field) => Object.hasOwn(action, field));
  if (both.length === 2) return refuse('type', "can't be given beside action");
  const [vocabulary] = both as Vocabulary[];
  if (vocabulary === undefined) return refuse('action', 'is missing, as is type');
  const name = action[vocabulary];
  const build = typeof name === 'string' ? builderOf(vocabulary, name) : null;
  if (build === null) return refuse(vocabulary, `must be one of ${actionNames(vocabulary).join(', ')}`);
  return builtStep(action, name as string, { vocabulary, build, index }, context);
}

interface Building {
  vocabulary: Vocabulary;
  build: (fields: FieldReader) => CanonicalAction;
  index: number;
}

function builtStep(action: Json, name: string, { vocabulary, build, index }: Building, { screen, display, errors }: Context): BatchStep {
  const place = { index, prefix: '' };
  const own = new FieldReader(action, place, errors, screen, display).size('display') ?? display;
  const fields = new FieldReader(action, place, errors, screen, own);
  fields.ignore(vocabulary, 'display');
  const canonical = build(fields);
  const isPicture = canonical.kind === 'screenshot' || canonical.kind === 'zoom';
  const shot = isPicture ? null : fields.shot('screenshot');
  fields.end(name);
  return { name, action: canonical, shot, display: own };
}

/** Returns the action in a tool use, as an object of Anthropic's vocabulary. */
function inputOf(use: Json, index: number, { screen, display, errors }: Context): Json | null {
  const fields = new FieldReader(use, { index, prefix: '' }, errors, screen, display);
  fields.ignore('name', 'input', ...blockFields);
  const { name, input } = use;
  if (fields.has('type')) fields.choice('type', ['tool_use']);
  if (!isObject(input)) fields.refuse('input', 'must be an object');
  else if (typeof name !== 'string') fields.refuse('name', 'must be the name of an action');
  else if (name !== WHOLE_TOOL && Object.hasOwn(input, 'action')) fields.refuse('input.action', "can't be given beside name");
  else if (Object.hasOwn(input, 'type')) fields.refuse('input.type', "can't be given in an input");
  else {
    // Fields of the service itself may be added to the model's input.
    const beside = ['screenshot', 'display'].filter((field) => fields.has(field));
    fields.ignore(...beside);
    fields.end("a tool's use");
    const own = Object.fromEntries(beside.map((field) => [field, use[field]]));
    return name === WHOLE_TOOL ? { ...input, ...own } : { action: name, ...input, ...own };
  }
  return null;
}

/** Refuses the first action, or the last picture, with which the waits become too long. */
function checkLength({ steps, shot }: Batch, errors: CodedError[]): void {
  let seconds = 0;
  const message = `the waits of a batch must take at most ${BATCH_SECONDS_MAX} s in sum`;
  for (const [index, step] of steps.entries()) {
    seconds += secondsOf(step.action) + (step.shot?.delayMs ?? 0) / 1_000;
    if (seconds > BATCH_SECONDS_MAX) {
      errors.push({ index, field: lengthField(step.action), message, code: 'batch_too_long' });
      return;
    }
  }
  if (seconds + (shot?.delayMs ?? 0) / 1_000 > BATCH_SECONDS_MAX) {
    errors.push({ index: null, field: 'screenshot.delay_ms', message, code: 'batch_too_long' });
  }
}

/** Returns how long an action waits, in seconds. */
export function secondsOf(action: CanonicalAction): number {
  switch (action.kind) {
    case 'wait':
    case 'hold':
      return action.seconds;
    case 'type':
      return (action.text.length * action.delayMs) / 1_000;
    case 'keys':
      return (action.chords.length * action.repeat * action.delayMs) / 1_000;
    case 'screenshot':
    case 'zoom':
      return action.shot.delayMs / 1_000;
    default:
      return 0;
  }
}

function lengthField({ kind }: CanonicalAction): string {
  if (kind === 'wait' || kind === 'hold') return 'duration';
  return kind === 'type' || kind === 'keys' ? 'delay_ms' : 'screenshot.delay_ms';
}
