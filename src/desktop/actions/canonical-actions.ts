/** A pixel of the real screen. */
export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

/** A part of the real screen. */
export interface Region extends Point, Size {}

export type ImageFormat = 'png' | 'jpeg' | 'webp';

export interface Shot {
  format: ImageFormat;
  quality: number;
  scale: number;
  cursor: boolean;
  /** The least time between the last input and the picture, in ms. */
  delayMs: number;
}

export type PointerButton = 'left' | 'middle' | 'right';

/**
 * An action of a desktop, in pixels of its screen and keysyms. `at: null` means the place of the pointer; the keys in `hold` are pressed
 * meanwhile.
 */
export type CanonicalAction =
  | { kind: 'screenshot'; shot: Shot }
  | { kind: 'zoom'; region: Region; shot: Shot }
  | { kind: 'click'; at: Point | null; button: PointerButton | 'back' | 'forward'; count: 1 | 2 | 3; hold: number[] }
  | { kind: 'press'; at: Point | null }
  | { kind: 'release'; at: Point | null }
  | { kind: 'move'; at: Point; hold: number[] }
  /** Without `from` it begins where the pointer is. */
  | { kind: 'drag'; from: Point | null; path: Point[]; hold: number[] }
  /** Notches of the wheel; positive ones go right and down. */
  | { kind: 'scroll'; at: Point | null; dx: number; dy: number; hold: number[] }
  | { kind: 'keys'; chords: number[][]; repeat: number; delayMs: number }
  | { kind: 'hold'; chord: number[]; seconds: number }
  | { kind: 'type'; text: string; delayMs: number }
  | { kind: 'paste'; text: string }
  | { kind: 'wait'; seconds: number }
  | { kind: 'cursor' };

export interface BatchStep {
  /** The caller's name of the action. */
  name: string;
  action: CanonicalAction;
  /** The picture to take after it. */
  shot: Shot | null;
  /** The size in which the caller sees the screen, for coordinates and pictures. */
  display: Size;
}

export interface Batch {
  steps: BatchStep[];
  /** The picture to take at the end. */
  shot: Shot | null;
  display: Size;
}

export type ActionErrorCode = 'invalid_action' | 'coordinate_out_of_bounds' | 'unknown_key' | 'batch_too_long';

export interface ActionError {
  /** The index of the action in the batch; null for a field of the batch itself. */
  index: number | null;
  field: string;
  message: string;
}

export type NormalisedBatch = { ok: true; batch: Batch } | { ok: false; code: ActionErrorCode; errors: ActionError[] };

/** Returns the pixel of the screen at the centre of the caller's coordinate. */
export function toScreen({ x, y }: Point, display: Size, screen: Size): Point {
  return { x: Math.floor(((x + 0.5) * screen.width) / display.width), y: Math.floor(((y + 0.5) * screen.height) / display.height) };
}

/** Returns the pixel of the screen as the caller's coordinate. */
export function toDisplay(point: Point, display: Size, screen: Size): Point {
  return toScreen(point, screen, display);
}
