import type { CanonicalAction, Point } from '../actions/canonical-actions.ts';
import { keysymOfCharacter } from '../actions/keysyms.ts';
import { pause } from '../../kernel/async/pause.ts';
import type { RfbConnection } from '../rfb/rfb-connection.ts';
import { OutsideOfScreen } from '../screen/encode-image.ts';
import { BUTTON, type InputDevice } from './input-device.ts';

/** The steps of a drag between two points of its path. With fewer, programs treat it as a click that slipped. */
const DRAG_STEPS = 10;
/** The longest wait for a program to request the pasted text, in ms. A program that accepts it requests it immediately. */
const PASTE_WAIT_MS = 1_000;
const KEY = { altL: 0xffe9, left: 0xff51, right: 0xff53, shiftL: 0xffe1, insert: 0xff63, return: 0xff0d, tab: 0xff09 } as const;

/** The actions that send input or wait. */
export type InputAction = Exclude<CanonicalAction, { kind: 'screenshot' | 'zoom' | 'cursor' }>;

export interface Desk {
  connection: RfbConnection;
  device: InputDevice;
  signal: AbortSignal;
}

/** Performs an action. If it throws, the caller releases what is pressed. */
export async function performAction(action: InputAction, desk: Desk): Promise<void> {
  const { device, signal } = desk;
  signal.throwIfAborted();
  switch (action.kind) {
    case 'click':
      moveInside(desk, action.at);
      await click(action, desk);
      break;
    case 'press':
      moveInside(desk, action.at);
      device.button(BUTTON.left, true);
      device.keepPressed(BUTTON.left);
      break;
    case 'release':
      moveInside(desk, action.at);
      device.button(BUTTON.left, false);
      break;
    case 'move':
      await withKeysHeld(action.hold, desk, () => moveInside(desk, action.at));
      break;
    case 'drag':
      await withKeysHeld(action.hold, desk, () => drag(action.from, action.path, desk));
      break;
    case 'scroll':
      moveInside(desk, action.at);
      await withKeysHeld(action.hold, desk, () => scroll(action, desk));
      break;
    case 'keys':
      await pressChords(action, desk);
      break;
    case 'hold':
      await withKeysHeld(action.chord, desk, () => waitAfterInput(action.seconds * 1_000, desk));
      break;
    case 'type':
      await type(action.text, action.delayMs, desk);
      break;
    case 'paste':
      await paste(action.text, desk);
      break;
    case 'wait':
      await waitAfterInput(action.seconds * 1_000, desk);
      break;
  }
  await device.flush(signal);
}

/** Sends all input so far, and then waits. */
async function waitAfterInput(ms: number, { device, signal }: Desk): Promise<void> {
  await device.flush(signal);
  await pause(ms, signal);
  signal.throwIfAborted();
}

async function withKeysHeld(keysyms: readonly number[], { device }: Desk, work: () => Promise<void> | void): Promise<void> {
  device.pressKeys(keysyms);
  await work();
  device.releaseKeys(keysyms);
}

/** Moves the pointer, within the screen: it may have become smaller since the batch was checked. */
function moveInside({ device, connection }: Desk, point: Point | null): void {
  if (point === null) return;
  const { size } = connection;
  if (point.x >= size.width || point.y >= size.height) throw new OutsideOfScreen(size);
  device.move(point);
}

async function click({ button, count, hold }: Extract<InputAction, { kind: 'click' }>, desk: Desk): Promise<void> {
  const { device } = desk;
  // RFB has no such buttons, but programs support these keys.
  if (button === 'back' || button === 'forward') return pressOnce([...hold, KEY.altL, button === 'back' ? KEY.left : KEY.right], device);
  await withKeysHeld(hold, desk, () => {
    for (let index = 0; index < count; index += 1) pressButton(BUTTON[button], device);
  });
}

function pressButton(bit: number, device: InputDevice): void {
  device.button(bit, true);
  device.button(bit, false);
}

function pressOnce(keysyms: readonly number[], device: InputDevice): void {
  device.pressKeys(keysyms);
  device.releaseKeys(keysyms);
}

async function drag(from: Point | null, path: readonly Point[], desk: Desk): Promise<void> {
  const { device, signal } = desk;
  moveInside(desk, from);
  device.button(BUTTON.left, true);
  for (const end of path) {
    const start = device.pointer;
    for (let step = 1; step <= DRAG_STEPS; step += 1) {
      const between = (a: number, b: number) => Math.round(a + ((b - a) * step) / DRAG_STEPS);
      moveInside(desk, { x: between(start.x, end.x), y: between(start.y, end.y) });
    }
    await device.flushSome(signal);
  }
  device.button(BUTTON.left, false);
}

function scroll({ dx, dy }: { dx: number; dy: number }, { device }: Desk): void {
  for (let notch = 0; notch < Math.abs(dy); notch += 1) pressButton(dy < 0 ? BUTTON.up : BUTTON.down, device);
  for (let notch = 0; notch < Math.abs(dx); notch += 1) pressButton(dx < 0 ? BUTTON.scrollLeft : BUTTON.scrollRight, device);
}

async function pressChords({ chords, repeat, delayMs }: Extract<InputAction, { kind: 'keys' }>, desk: Desk): Promise<void> {
  for (let time = 0; time < repeat; time += 1) {
    for (const chord of chords) {
      pressOnce(chord, desk.device);
      if (delayMs > 0) await waitAfterInput(delayMs, desk);
      else await desk.device.flushSome(desk.signal);
    }
  }
}

/**
 * Types ASCII as keys. An X keyboard has keys for few other characters, so a text with any of them is pasted. The line ends after it are
 * typed, because a shell does not treat a pasted one as the end of a command.
 */
async function type(text: string, delayMs: number, desk: Desk): Promise<void> {
  const lines = text.replaceAll('\r\n', '\n').replaceAll('\r', '\n');
  const isAscii = /^[\t\n -~]*$/.test(lines);
  const pasted = isAscii ? '' : withoutLastLineEnds(lines);
  await paste(pasted, desk);
  for (const character of lines.slice(pasted.length)) {
    pressOnce([keysymOfTyped(character)], desk.device);
    if (delayMs > 0) await waitAfterInput(delayMs, desk);
    else await desk.device.flushSome(desk.signal);
  }
}

function withoutLastLineEnds(text: string): string {
  let end = text.length;
  while (text[end - 1] === '\n') end -= 1;
  return text.slice(0, end);
}

function keysymOfTyped(character: string): number {
  if (character === '\n') return KEY.return;
  return character === '\t' ? KEY.tab : keysymOfCharacter(character);
}

/** Pastes with shift and Insert, which works in terminals, too, and waits until a program has received the text. */
async function paste(text: string, { connection, device, signal }: Desk): Promise<void> {
  if (text === '') return;
  await device.flush(signal);
  const { requested } = await connection.offerText(text);
  pressOnce([KEY.shiftL, KEY.insert], device);
  await device.flush(signal);
  const over = new AbortController();
  try {
    await Promise.race([requested, pause(PASTE_WAIT_MS, AbortSignal.any([signal, over.signal]))]);
  } finally {
    over.abort();
  }
  signal.throwIfAborted();
  await connection.barrier();
}
