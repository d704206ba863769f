/** The size of the largest files that are read whole, in characters. */
export const FILE_SIZE = 256 * 1024;
/** A quarter of the size takes a quarter of the time, or a tenth on a busy machine; with quadratic time it takes a sixteenth. */
const RATIO_MAX = 10;
/** The processor time below which no ratio is checked, in ms: garbage collections and compilations take as much. */
const NOISE_MS = 400;

/** The limit of the processor time for a text of the full size, in ms: a large constant factor blocks a service as quadratic time does. */
const PROCESSOR_MAX_MS = 10_000;

/** Repeats the text until it has about that many characters. */
export function filled(text: string, size: number): string {
  return text.repeat(Math.max(1, Math.floor(size / text.length)));
}

/** Fails if reading the text takes seconds, or much more than four times the processor time of reading a text of a quarter of the size. */
export function expectLinear(textOf: (size: number) => string, read: (text: string) => void, size = FILE_SIZE): void {
  const quarter = processorMs(() => read(textOf(size / 4)));
  const whole = processorMs(() => read(textOf(size)));
  expect(whole).toBeLessThan(PROCESSOR_MAX_MS);
  expect(whole).toBeLessThan(RATIO_MAX * quarter + NOISE_MS);
}

function processorMs(work: () => void): number {
  const begun = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1_000;
}
