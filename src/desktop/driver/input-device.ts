/*
 * Sends key and pointer events to a desktop, and remembers which keys and buttons are pressed.
 *
 * It owns the pressed keys, the button mask, the place of the pointer and the events that are not sent yet, all for one connection. It does
 * not own the right to use it (`Turn`), or the translation of actions into events (`perform-action.ts`).
 *
 * Invariants:
 * I1. The button mask of every pointer event contains all buttons that are pressed, because RFB releases a button that is missing in it.
 * I2. At most 200 events are sent before the desktop has processed them. A signal stops an input only between two such parts.
 * I3. After `release`, no key of this connection is pressed, and only those buttons that `keep` was called for. Events that wait are dropped,
 *     so that they can't press anything again.
 * I4. A button is kept only until it is released, whoever releases it.
 */

import type { Point } from '../actions/canonical-actions.ts';
import { keyEvent, pointerEvent } from '../rfb/client-messages.ts';
import type { RfbConnection } from '../rfb/rfb-connection.ts';
import type { LeftInput } from './turn.ts';

/** The RFB bits for the buttons and the four directions of the wheel. */
export const BUTTON = { left: 1, middle: 2, right: 4, up: 8, down: 16, scrollLeft: 32, scrollRight: 64 } as const;

/** The most events that are sent together. The desktop has processed them before the next ones are sent. */
const EVENTS_MAX = 200;

/** Shift, control, meta, alt, super and hyper on both sides. Caps lock is a toggle and not included. */
const MODIFIERS = [0xffe1, 0xffe2, 0xffe3, 0xffe4, 0xffe7, 0xffe8, 0xffe9, 0xffea, 0xffeb, 0xffec, 0xffed, 0xffee];

/** The keyboard and the pointer of a desktop, with the keys and buttons that are pressed. */
export class InputDevice {
  /** The time of the latest input; -Infinity before the first. */
  sentAt = -Infinity;
  private keys: number[] = [];
  private buttons: number;
  private events: Buffer[] = [];

  /** `kept` are the bits of the buttons that are pressed and stay pressed. */
  constructor(
    private readonly connection: RfbConnection,
    private lastPosition: Point,
    private keptBits = 0,
  ) {
    this.buttons = keptBits;
  }

  /** Continues with the pointer (if known) and the buttons as another process has left them. */
  resume({ pointer, buttons }: LeftInput): void {
    if (pointer !== null) {
      this.lastPosition = { ...pointer };
      this.connection.pointer = { ...pointer };
    }
    this.buttons = buttons;
    this.keptBits = buttons;
  }

  /** The place of the pointer. Programs of the desktop, and people, may have moved it. */
  get pointer(): Point {
    return this.connection.pointer ?? this.lastPosition;
  }

  /** The bits of the buttons that stay down after the batch. */
  get keptButtons(): number {
    return this.keptBits;
  }

  move(point: Point): void {
    this.lastPosition = { ...point };
    this.connection.pointer = { ...point };
    this.addPointerEvent();
  }

  button(bit: number, isDown: boolean): void {
    this.buttons = isDown ? this.buttons | bit : this.buttons & ~bit;
    if (!isDown) this.keptBits &= ~bit; // I4
    this.addPointerEvent();
  }

  /** Keeps a pressed button pressed after the batch. */
  keepPressed(bit: number): void {
    this.keptBits |= bit;
  }

  key(keysym: number, isDown: boolean): void {
    this.keys = this.keys.filter((key) => key !== keysym);
    if (isDown) this.keys.push(keysym);
    this.events.push(keyEvent(keysym, isDown));
  }

  /** Presses keys in order. */
  pressKeys(keysyms: readonly number[]): void {
    for (const keysym of keysyms) this.key(keysym, true);
  }

  /** Releases keys in the opposite order. */
  releaseKeys(keysyms: readonly number[]): void {
    for (const keysym of keysyms.toReversed()) this.key(keysym, false);
  }

  /** Sends the buffered events in parts, and resolves when the desktop has processed them. The signal can stop it between the parts. */
  async flush(signal?: AbortSignal): Promise<void> {
    while (this.events.length > 0) {
      signal?.throwIfAborted(); // I2
      const part = this.events.splice(0, EVENTS_MAX);
      this.sentAt = performance.now();
      await this.connection.input(part);
      this.sentAt = performance.now();
    }
  }

  /** Sends the buffered events if there are many. */
  async flushSome(signal: AbortSignal): Promise<void> {
    if (this.events.length >= EVENTS_MAX) await this.flush(signal);
  }

  /** Releases all keys, and all buttons except those that stay pressed. Buffered events are dropped. */
  async release(): Promise<void> {
    this.events = []; // I3
    this.releaseKeys([...this.keys]);
    if (this.buttons !== this.keptBits) {
      this.buttons = this.keptBits;
      this.addPointerEvent();
    }
    await this.flush();
  }

  /** Releases the buttons that an earlier connection may have left pressed. The server has released its keys. */
  async reset(): Promise<void> {
    this.move(this.pointer);
    await this.flush();
  }

  /** Releases every modifier, and every button except those that stay pressed, whoever pressed them. */
  async releaseAll(): Promise<void> {
    this.events = []; // I3
    this.keys = [];
    this.buttons = this.keptBits;
    this.releaseKeys(MODIFIERS);
    this.addPointerEvent();
    await this.flush();
  }

  private addPointerEvent(): void {
    const { x, y } = this.pointer;
    this.events.push(pointerEvent(this.buttons, x, y)); // I1
  }
}
