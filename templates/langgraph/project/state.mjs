// Keeps the state of LangGraph's server safe. By itself the server writes its files three seconds after the last change and in place, so a
// kill loses the last turns, or the whole file if it comes in the middle of a write, and a run that it cuts off blocks its thread for ever.
import { open, rename } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

/** The server of the project's own version, if the project has one, or else the one that came with this file. */
export const serverUrl = resolveServer([join(process.cwd(), 'package.json'), import.meta.url]);

const { FileSystemPersistence, serialize } = await import(new URL('storage/persist.mjs', serverUrl));
const { FileSystemOps } = await import(new URL('storage/ops.mjs', serverUrl));
const { Hono } = await import(pathToFileURL(createRequire(serverUrl).resolve('hono')).href);

const SAVE_DELAY_MS = 3_000;
const stores = new Set();

function resolveServer([first, ...others]) {
  try {
    return pathToFileURL(createRequire(first).resolve('@langchain/langgraph-api/server')).href;
  } catch (error) {
    if (others.length === 0) throw error;
    return resolveServer(others);
  }
}

/** Resolves when all changes until now are on the disk. */
export async function saveState() {
  await turnOfTheLoop();
  await Promise.all([...stores].filter(({ isChanged }) => isChanged).map((store) => store.persist()));
}

const { initialize } = FileSystemPersistence.prototype;

Object.assign(FileSystemPersistence.prototype, {
  async initialize(folder) {
    await initialize.call(this, folder);
    stores.add(this);
    repeatCutOffRuns(this.data);
    return this;
  },

  /** Writes the data. Calls during a write share the next one. */
  persist() {
    this.nextWrite ??= Promise.resolve(this.write)
      .catch(() => undefined)
      .then(() => {
        this.write = this.nextWrite;
        this.nextWrite = undefined;
        this.isChanged = false;
        return replaceFile(this.filepath, serialize(this.data)).catch((error) => {
          this.isChanged = true;
          throw error;
        });
      });
    return this.nextWrite;
  },

  schedulePersist() {
    this.isChanged = true;
    this.flushTimeout ??= setTimeout(() => {
      this.flushTimeout = undefined;
      this.persist().catch((error) =>
        console.error(JSON.stringify({ level: 'error', message: `the state was not saved: ${error.message}` })),
      );
    }, SAVE_DELAY_MS);
  },
});

// The server has a route for its own tests, "/internal/truncate", which deletes everything.
if (FileSystemOps !== undefined)
  FileSystemOps.prototype.truncate = () => {
    throw new Error('this server does not delete its whole state');
  };

async function replaceFile(path, text) {
  const file = await open(`${path}.new`, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
}

/** Queues the runs that were cut off, and frees the threads that wait for none. */
function repeatCutOffRuns({ runs = {}, threads = {} }) {
  for (const run of Object.values(runs)) if (run.status === 'running') run.status = 'pending';
  const awaited = new Set(Object.values(runs).flatMap((run) => (run.status === 'pending' ? [run.thread_id] : [])));
  for (const thread of Object.values(threads)) if (thread.status === 'busy' && !awaited.has(thread.thread_id)) thread.status = 'idle';
}

const isRead = ({ method, path }) => method === 'GET' || method === 'OPTIONS' || /\/(search|count|history)$/.test(path);

/** Ends no answer to a change before the state is saved, so that an agent which is killed has everything that it answered. */
export const answers = new Hono();
answers.use('*', async (context, next) => {
  await next();
  if (isRead(context.req)) return;
  if (context.res.body === null) return saveState();
  context.res = new Response(context.res.body.pipeThrough(new TransformStream({ flush: saveState })), context.res);
});
