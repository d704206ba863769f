import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const ANSWERS_MAX = 200;
const file = join(process.env.MOORING_VOLUME ?? '.', 'answers.json');
let last = Promise.resolve();

/**
 * Answers a message: { id, channel, conversation_id, text }. A message that comes again, because its response was lost, has the same id and
 * gets the same answer. What the agent remembers is on its volume, so that it survives each stop and each deployment.
 */
export function reply(message) {
  // Messages are answered one after the other, so that none is counted twice.
  const mine = last.then(() => replyOnce(message));
  last = mine.catch(() => undefined);
  return mine;
}

async function replyOnce({ id, conversation_id: conversation, text }) {
  const answers = await remembered();
  const known = answers.find((answer) => answer.id === id);
  if (known !== undefined) return known.response;
  const count = answers.filter((answer) => answer.conversation === conversation).length + 1;
  const response = `You wrote: ${String(text ?? '').slice(0, 500)}. It was message ${count} of this conversation.`;
  await remember([...answers, { id, conversation, response }].slice(-ANSWERS_MAX));
  return response;
}

async function remembered() {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return [];
  }
}

/** Writes the file so that a crash leaves the old one or the new one, never a part. */
async function remember(answers) {
  await writeFile(`${file}.new`, JSON.stringify(answers));
  await rename(`${file}.new`, file);
}
