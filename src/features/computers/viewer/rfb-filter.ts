/*
 * Filters the RFB messages that a browser sends to a desktop. It is a parser with state: pieces of any length go in, whole messages come
 * out.
 *
 * It owns the greeting of the browser, the parser's position, and the set of keys and buttons that the browser holds down (`PressedInput`).
 * It does not own the connections (`ViewerRelay`), or the direction from the desktop to the browser.
 *
 * Invariants:
 * F1. Only known messages of known length are let through; anything else throws `RfbViolation`. So the filter and the desktop always agree
 *     where a message ends.
 * F2. While input is not allowed, no key, pointer or clipboard message reaches the desktop. View-only sessions rely on this alone.
 * F3. A browser never changes the size or the power state of the desktop.
 * F4. What is pressed can always be released: `release` returns the messages for it, after the body of a text that is being passed on.
 * F5. Memory is bounded: at most one message head is buffered, and bodies are passed on or dropped as they come.
 */

import { PressedInput } from './pressed-input.ts';

/** The longest text that a browser may send to the clipboard, in bytes. */
export const CUT_TEXT_BYTES_MAX = 1_048_576;
/** The most encodings that a browser may announce. */
const ENCODINGS_MAX = 256;
const FENCE_BYTES_MAX = 64;
/** The pseudo-encoding after which messages of the pointer may have another length; nobody needs it. */
const EXTENDED_MOUSE_BUTTONS = -316;

const VERSION_BYTES = 12;
const SECURITY_NONE = 1;
/** The first messages of a server that wants no password. */
export const GREETING = Buffer.from('RFB 003.008\n');
const SECURITY_TYPES = Buffer.of(1, SECURITY_NONE);
const SECURITY_OK = Buffer.alloc(4);

const TYPE = {
  pixelFormat: 0,
  encodings: 2,
  updateRequest: 3,
  key: 4,
  pointer: 5,
  cutText: 6,
  continuousUpdates: 150,
  fence: 248,
  xvp: 250,
  desktopSize: 251,
  qemu: 255,
} as const;

/** F1: a browser sent something that breaks the protocol, or that is never passed on. */
export class RfbViolation extends Error {
  constructor(reason: string) {
    super(`${reason}.`);
    this.name = 'RfbViolation';
  }
}

/** The result of filtering a piece of a browser's stream. */
export interface FilterResult {
  toDesktop: Buffer[];
  toBrowser: Buffer[];
  /** The value is true if the handshake with the browser is complete. From then on it gets the bytes of the desktop. */
  isGreeted: boolean;
  /** The value is true if a key, pointer or clipboard message was passed on. */
  hasInput: boolean;
  /** The last place to which the pointer was moved; null if it was not. */
  pointer: { x: number; y: number } | null;
}

type Stage = 'version' | 'security' | 'init' | 'messages';

/**
 * Parses the messages of a browser from pieces of any length, and lets through those that the browser may send. It answers the browser's
 * handshake itself.
 */
export class RfbFilter {
  private stage: Stage = 'version';
  /** F5: the first bytes of a message whose head is not complete yet. */
  private head: Buffer = Buffer.alloc(0);
  /** The bytes that are still to come of a message's body, and whether they are passed on. */
  private body = { left: 0, isPassed: false };
  private readonly pressed = new PressedInput();
  /** F4: whether pressed keys are to be released after the text that is being passed on. */
  private releasesAfterBody = false;

  constructor(private allowsInput: boolean) {}

  /** Allows or refuses input from the next message on. Returns the messages that release the pressed keys and buttons. */
  setInput(isAllowed: boolean): Buffer[] {
    this.allowsInput = isAllowed;
    return isAllowed ? [] : this.release();
  }

  /** F4: returns the messages that release the pressed keys and buttons; none during a text, after which they are sent. */
  release(): Buffer[] {
    this.releasesAfterBody = this.body.left > 0 && this.body.isPassed;
    return this.releasesAfterBody ? [] : this.pressed.release();
  }

  /** Filters the next piece. Throws `RfbViolation`. */
  write(piece: Buffer): FilterResult {
    const result: FilterResult = { toDesktop: [], toBrowser: [], isGreeted: false, hasInput: false, pointer: null };
    let rest = piece;
    while (rest.length > 0) rest = this.body.left > 0 ? this.continueBody(rest, result) : this.readHead(rest, result);
    result.isGreeted = this.stage === 'messages';
    return result;
  }

  /** Passes on or drops the part of the piece that belongs to a body, and returns the rest of the piece. */
  private continueBody(piece: Buffer, result: FilterResult): Buffer {
    const part = piece.subarray(0, this.body.left);
    this.body.left -= part.length;
    if (this.body.isPassed) result.toDesktop.push(part);
    if (this.body.left === 0 && this.releasesAfterBody) result.toDesktop.push(...this.release());
    return piece.subarray(part.length);
  }

  /** Collects the head of a message, and handles it once it is complete. */
  private readHead(piece: Buffer, result: FilterResult): Buffer {
    const known = this.head.length === 0 ? piece : Buffer.concat([this.head, piece]);
    const length = this.stage === 'messages' ? headBytes(known) : this.stage === 'version' ? VERSION_BYTES : 1;
    if (length === null || known.length < length) {
      // F5: the bytes are copied, because the piece may be a part of a larger buffer.
      this.head = Buffer.from(known);
      return Buffer.alloc(0);
    }
    this.head = Buffer.alloc(0);
    const head = known.subarray(0, length);
    if (this.stage === 'messages') this.handle(head, result);
    else this.answerHandshake(head, result);
    return known.subarray(length);
  }

  private answerHandshake(message: Buffer, { toBrowser }: FilterResult): void {
    if (this.stage === 'version') {
      if (!message.equals(GREETING)) throw new RfbViolation('The browser does not speak RFB 3.8');
      toBrowser.push(SECURITY_TYPES);
      this.stage = 'security';
    } else if (this.stage === 'security') {
      if (message[0] !== SECURITY_NONE) throw new RfbViolation('The browser chose a security type that was not offered');
      toBrowser.push(SECURITY_OK);
      this.stage = 'init';
    } else this.stage = 'messages';
  }

  private handle(head: Buffer, result: FilterResult): void {
    switch (head[0]) {
      case TYPE.encodings:
        result.toDesktop.push(withoutMouseButtons(head));
        return;
      case TYPE.key:
      case TYPE.pointer:
      case TYPE.qemu:
        this.passInput(head, result);
        return;
      case TYPE.cutText:
        this.passText(head, result);
        return;
      // F3
      case TYPE.xvp:
        return;
      case TYPE.desktopSize:
        this.body = { left: 16 * (head[6] ?? 0), isPassed: false };
        return;
      default:
        result.toDesktop.push(head);
    }
  }

  private passInput(message: Buffer, result: FilterResult): void {
    // F2
    if (!this.allowsInput || !this.pressed.track(message)) return;
    result.hasInput = true;
    result.toDesktop.push(message);
    if (message[0] === TYPE.pointer) result.pointer = { x: message.readUInt16BE(2), y: message.readUInt16BE(4) };
  }

  private passText(head: Buffer, result: FilterResult): void {
    // The length of a message of the extended clipboard is negative.
    const left = Math.abs(head.readInt32BE(4));
    if (left > CUT_TEXT_BYTES_MAX) throw new RfbViolation(`A clipboard text may have at most ${CUT_TEXT_BYTES_MAX} bytes`);
    this.body = { left, isPassed: this.allowsInput };
    if (!this.allowsInput) return;
    result.hasInput = true;
    result.toDesktop.push(head);
  }
}

/** F1: returns the length of a message's head, the part that is parsed as a whole; null if more bytes are needed to know it. */
function headBytes(known: Buffer): number | null {
  switch (known[0]) {
    case TYPE.pixelFormat:
      return 20;
    case TYPE.encodings: {
      if (known.length < 4) return null;
      const count = known.readUInt16BE(2);
      if (count > ENCODINGS_MAX) throw new RfbViolation(`A browser may announce at most ${ENCODINGS_MAX} encodings`);
      return 4 + 4 * count;
    }
    case TYPE.key:
    case TYPE.cutText:
    case TYPE.desktopSize:
      return 8;
    case TYPE.pointer:
      return 6;
    case TYPE.updateRequest:
    case TYPE.continuousUpdates:
      return 10;
    case TYPE.fence: {
      const payload = known[8];
      if (payload === undefined) return null;
      if (payload > FENCE_BYTES_MAX) throw new RfbViolation(`A fence may have at most ${FENCE_BYTES_MAX} bytes`);
      return 9 + payload;
    }
    case TYPE.xvp:
      return 4;
    case TYPE.qemu:
      if (known.length > 1 && known[1] !== 0) throw new RfbViolation(`Messages of type 255 and kind ${known[1]} are not accepted`);
      return 12;
    default:
      throw new RfbViolation(`Messages of type ${known[0]} are not accepted`);
  }
}

/** F1: removes from the announced encodings the one that would change the length of pointer messages. */
function withoutMouseButtons(message: Buffer): Buffer {
  const encodings: Buffer[] = [];
  for (let at = 4; at < message.length; at += 4)
    if (message.readInt32BE(at) !== EXTENDED_MOUSE_BUTTONS) encodings.push(message.subarray(at, at + 4));
  const head = Buffer.from(message.subarray(0, 4));
  head.writeUInt16BE(encodings.length, 2);
  return Buffer.concat([head, ...encodings]);
}
