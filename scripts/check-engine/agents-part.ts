import { createHash, randomBytes } from 'node:crypto';

import { shown } from './agent-api.ts';
import { check, differs, type Exception } from './outcome.ts';
import { agentNamed, type Part, type Walk } from './step.ts';

const FIRST = 'the first agent starts, of the template hello';
const FILE_BYTES = 3_000_000;
const TIMED_OUT = 124;

const first = (walk: Walk): string => agentNamed(walk, 'first');
const filesOf = (walk: Walk): string => `/api/agents/${first(walk)}/files`;

/** The life of the agent that `npm start` creates. */
export const agentsPart: Part = {
  name: 'agents',
  steps: [
    { name: FIRST, seconds: 240, run: starts },
    { name: 'it replies to a chat', seconds: 60, needs: FIRST, run: (walk) => walk.api.replies(first(walk), 'You wrote: hello') },
    { name: 'it runs a command, given as an array', seconds: 60, needs: FIRST, run: runsArray },
    { name: 'it runs a command, given as a string for a shell', seconds: 60, needs: FIRST, run: runsString },
    { name: 'a command that takes too long is killed', seconds: 60, needs: FIRST, run: killsLate },
    { name: 'files are uploaded, listed and downloaded', seconds: 90, needs: FIRST, run: carriesFiles },
    { name: 'files are moved and deleted', seconds: 60, needs: FIRST, run: movesFiles },
    { name: 'its output is in its log', seconds: 60, needs: FIRST, run: logs },
    { name: 'it sleeps frozen', seconds: 60, needs: FIRST, run: freezes },
    { name: 'a chat wakes it, with its memory', seconds: 60, needs: FIRST, run: wakes },
    { name: 'it sleeps deeply after a while', seconds: 120, needs: FIRST, run: sleepsDeeply },
    { name: 'a chat wakes it, with its files', seconds: 90, needs: FIRST, run: wakesDeeply },
    { name: 'it is stopped, and refuses a chat', seconds: 90, needs: FIRST, run: stops },
    { name: 'it is started again', seconds: 120, needs: FIRST, run: startsAgain },
    { name: 'its port is public once its owner opens it', seconds: 60, needs: FIRST, run: isPublic },
  ],
};

async function starts(walk: Walk): Promise<void> {
  walk.agents.set('first', walk.service.firstAgent);
  await walk.api.active(first(walk));
}

async function runsArray(walk: Walk): Promise<void> {
  const { exitCode, stdout, stderr } = await walk.api.exec(first(walk), ['node', '-p', 'process.argv[1]', '$HOME "two words"']);
  check(exitCode === 0 && stdout === '$HOME "two words"\n', `it ended with ${exitCode} and printed ${stdout}${stderr}`);
}

async function runsString(walk: Walk): Promise<void> {
  const { exitCode, stdout, stderr } = await walk.api.exec(first(walk), 'echo $((6 * 7)) | cat; exit 3');
  check(exitCode === 3 && stdout === '42\n', `it ended with ${exitCode} and printed ${stdout}${stderr}`);
}

async function killsLate(walk: Walk): Promise<void> {
  const { exitCode, timedOut } = await walk.api.exec(first(walk), ['node', '-e', 'setTimeout(() => {}, 60_000)'], 1);
  check(exitCode === TIMED_OUT && timedOut === true, `it ended with ${exitCode}, timedOut ${timedOut}`);
}

async function carriesFiles(walk: Walk): Promise<void> {
  const content = randomBytes(FILE_BYTES);
  const form = new FormData();
  form.append('dest_dir', 'walk');
  form.append('file', new Blob([content]), 'up.bin');
  const sent = await walk.service.call('POST', `${filesOf(walk)}/upload`, form);
  check(sent.status < 300 && sent.body.size === FILE_BYTES, `the upload was answered ${shown(sent)}`);
  const list = await walk.service.call('GET', `${filesOf(walk)}/list?path=walk`);
  check(
    list.body.entries?.some((entry: { name: string; size: number }) => entry.name === 'up.bin' && entry.size === FILE_BYTES),
    `the list was answered ${shown(list)}`,
  );
  const response = await walk.service.fetch(`${filesOf(walk)}/download?path=walk/up.bin`);
  const got = Buffer.from(await response.arrayBuffer());
  check(
    hashOf(got) === hashOf(content),
    `the download was answered ${response.status}, with ${got.length} bytes that are not those that were sent`,
  );
}

async function movesFiles(walk: Walk): Promise<void> {
  const path = filesOf(walk);
  const written = await walk.service.call('PUT', `${path}/write`, { path: 'walk/a.txt', content: 'a' });
  check(written.status < 300, `writing was answered ${shown(written)}`);
  const moved = await walk.service.call('POST', `${path}/move`, { from: 'walk/a.txt', to: 'walk/b.txt' });
  check(moved.status < 300, `the move was answered ${shown(moved)}`);
  const gone = await walk.service.call('POST', `${path}/move`, { from: 'walk/a.txt', to: 'walk/c.txt' });
  check(gone.status === 404, `a move of a file that is gone was answered ${shown(gone)}`);
  const deleted = await walk.service.call('DELETE', `${path}/delete?path=walk`);
  check(deleted.status === 204, `the deletion was answered ${shown(deleted)}`);
  const list = await walk.service.call('GET', `${path}/list?path=walk`);
  check(list.status === 404, `the list of a deleted folder was answered ${shown(list)}`);
}

async function logs(walk: Walk): Promise<void> {
  await walk.api.until(async () => {
    const { body } = await walk.service.call('GET', `/api/agents/${first(walk)}/logs`);
    return body.some(({ source }: { source: string }) => source === 'agent') ? true : undefined;
  });
}

/** Returns the depth of the agent's last sleep: `frozen` or `stopped`. */
async function depthOf(walk: Walk): Promise<string | undefined> {
  const { body } = await walk.service.call('GET', `/api/v1/agents/${first(walk)}/history?limit=200&type=AgentSlept`);
  return body.at(-1)?.data.depth;
}

async function freezes(walk: Walk): Promise<Exception | void> {
  await walk.api.change(first(walk), 'sleep', 'sleeping');
  const depth = await depthOf(walk);
  if (depth === 'stopped') return differs('agents sleep by being stopped, since this engine can’t freeze a container');
  const { State } = await walk.engine.containerOf(first(walk));
  check(State.Status === 'paused', `its container is ${State.Status}`);
}

async function wakes(walk: Walk): Promise<Exception | void> {
  const before = await walk.engine.containerOf(first(walk));
  const wasFrozen = before.State.Status === 'paused';
  const { woken } = await walk.api.chat(first(walk), 'good morning');
  check(woken, 'the answer does not say that it was woken');
  if (!wasFrozen) return differs('it was stopped, so that its memory is gone');
  const { State } = await walk.engine.containerOf(first(walk));
  check(State.StartedAt === before.State.StartedAt, 'its container was started anew');
}

async function sleepsDeeply(walk: Walk): Promise<void> {
  await walk.api.change(first(walk), 'sleep', 'sleeping');
  await walk.api.until(async () => ((await depthOf(walk)) === 'stopped' ? true : undefined));
  const { State } = await walk.engine.containerOf(first(walk));
  check(State.Status === 'exited', `its container is ${State.Status}`);
}

async function wakesDeeply(walk: Walk): Promise<void> {
  const { reply, woken } = await walk.api.chat(first(walk), 'good morning again');
  check(woken, 'the answer does not say that it was woken');
  check(/asked \d+ times/.test(reply), `the count of its chats, which it keeps on its volume, is gone: ${reply}`);
}

async function stops(walk: Walk): Promise<void> {
  await walk.api.change(first(walk), 'stop', 'stopped');
  const refused = await walk.service.call('POST', `/api/agents/${first(walk)}/chat`, { message: 'hello' });
  check(refused.status === 409, `a chat was answered ${shown(refused)}`);
}

async function startsAgain(walk: Walk): Promise<void> {
  await walk.api.change(first(walk), 'start', 'active');
  await walk.api.replies(first(walk), 'You wrote: hello');
}

async function isPublic(walk: Walk): Promise<void> {
  const opened = await walk.service.call('PATCH', `/api/v1/agents/${first(walk)}`, { public: true });
  check(opened.status === 200 && typeof opened.body.public_url === 'string', `opening it was answered ${shown(opened)}`);
  const response = await walk.service.fetch(`${opened.body.public_url}healthz`);
  check(response.ok, `its own port was answered ${response.status}`);
  await walk.service.call('PATCH', `/api/v1/agents/${first(walk)}`, { public: false });
  const closed = await walk.service.fetch(`${opened.body.public_url}healthz`);
  check(closed.status === 404, `the port that was closed again was answered ${closed.status}`);
}

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
