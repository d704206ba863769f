export const LINE_BYTES_MAX: number;

export interface LongLine {
  add(bytes: Uint8Array, mayHold?: (size: number) => boolean): void;
  text(): string;
}
export const LongLine: new () => LongLine;
