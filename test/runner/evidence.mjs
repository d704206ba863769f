/** The parts of a test that can say what happened in them: started services, above all. */
const witnesses = new Map();

/** The longest evidence of one witness, in characters; its end is kept. */
const EVIDENCE_MAX = 8_000;

/** Has `describe` called when a test fails, and its text printed under `name`. Returns a function that ends this. */
export function addWitness(name, describe) {
  const key = Symbol(name);
  witnesses.set(key, { name, describe });
  return () => void witnesses.delete(key);
}

/** Returns what all witnesses say. A witness that fails says why, since the service may be what has failed. */
export async function collectEvidence() {
  const told = await Promise.all(
    [...witnesses.values()].map(async ({ name, describe }) => {
      const text = await Promise.resolve()
        .then(describe)
        .catch((error) => `(nothing: ${error.message})`);
      return `-- ${name}\n${text.slice(-EVIDENCE_MAX)}`;
    }),
  );
  return told.join('\n');
}
