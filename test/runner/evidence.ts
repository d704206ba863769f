/** Says what a part of a test did: a started service, above all. */
type Describe = () => string | Promise<string>;

/** The parts of the current file's tests that can say what they did. */
const witnesses = new Map<symbol, { name: string; describe: Describe }>();

/** The longest evidence of one witness, in characters; its end is kept. */
const EVIDENCE_MAX = 12_000;
/** The longest evidence of all witnesses together, in characters; its beginning is kept. */
const ALL_EVIDENCE_MAX = 40_000;
const WITNESS_TIMEOUT_MS = 5_000;

/** The clock is the real one: the test that failed may have replaced it. */
const { setTimeout, clearTimeout } = globalThis;

/** Has `describe` called when a test fails, and its text printed under `name`. Returns a function that ends this. */
export function addWitness(name: string, describe: Describe): () => void {
  const key = Symbol(name);
  witnesses.set(key, { name, describe });
  return () => void witnesses.delete(key);
}

/** Forgets the witnesses that a test file left behind. */
export function forgetWitnesses(): void {
  witnesses.clear();
}

/** Returns what all witnesses say, the newest first. One that fails or takes too long says so, since the service may be what has failed. */
export async function collectEvidence(timeoutMs = WITNESS_TIMEOUT_MS): Promise<string> {
  const told = await Promise.all(
    [...witnesses.values()].toReversed().map(async ({ name, describe }) => {
      const text = await withinTime(describe, timeoutMs).catch((error: unknown) => `(nothing: ${String(error)})`);
      return `-- ${name}\n${text.slice(-EVIDENCE_MAX)}`;
    }),
  );
  return told.join('\n').slice(0, ALL_EVIDENCE_MAX);
}

async function withinTime(describe: Describe, timeoutMs: number): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([Promise.resolve().then(describe), late]);
  } finally {
    clearTimeout(timer);
  }
}
