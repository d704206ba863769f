// Decides what a request may do that came by the agent's public address, at which anybody may call. Such a caller may use a thread or a run
// whose id it knows, or that it made itself, since these ids can't be guessed. It lists no threads of others, changes no assistants, and has
// no access to the store, which everybody shares.

/** Mooring sets this header for each caller of the public address, and passes on none that a caller sent. Its own requests have none. */
const PUBLIC_HEADER = 'forwarded';

const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
// Mooring derives the ids of its conversations' threads from names, some of which others know. They are UUIDs of version 5.
const threadId = id.replace('-[0-9a-f]{4}-', '-[0-9a-f]{4}-(?!5)');
const isThreadId = (text) => new RegExp(`^${threadId}$`, 'i').test(text);
const ownRoutes = /^\/(assistants|runs|store|threads)(\/|$)/;
const open = [
  '(GET|HEAD) /assistants/[^/]+(/(graph|schemas|subgraphs(/[^/]+)?))?',
  'POST /assistants/(search|count)',
  'POST /threads(/search)?',
  `[A-Z]+ /threads/${threadId}(/.*)?`,
  'POST /runs(/(stream|wait|batch))?',
  `(GET|HEAD) /runs/${id}/stream`,
].map((route) => new RegExp(`^${route}$`, 'i'));

/** A middleware that refuses what is not open to the public. */
export async function publicRule(context, next) {
  const { method, path } = context.req;
  if (context.req.header(PUBLIC_HEADER) === undefined || !ownRoutes.test(path)) return next();
  const refused = (sentence) => context.json({ detail: `${sentence} The owner of the agent can set LANGGRAPH_PUBLIC_API to all.` }, 403);
  if (!open.some((route) => route.test(`${method} ${path}`))) return refused(`${method} ${path.slice(0, 200)} is not open to the public.`);
  if (method !== 'POST') return next();
  // The server would otherwise read no body of another type, and find all threads.
  context.req.raw.headers.set('content-type', 'application/json');
  const body = await context.req.json().catch(() => undefined);
  // The server calls its own routes for a webhook, as nobody of the public could.
  if ([body].flat().some((run) => run?.webhook !== undefined)) return refused('A webhook after a run is not open to the public.');
  if (path === '/threads' && body?.thread_id !== undefined && !isThreadId(body.thread_id))
    return refused('The thread’s id is no UUID, or one of version 5.');
  if (path !== '/threads/search') return next();
  const ids = body?.ids ?? [];
  // Clients that list threads when they begin go on with an empty list.
  if (ids.length === 0) return context.json([], 200, { 'x-pagination-total': '0' });
  return Array.isArray(ids) && ids.every(isThreadId) ? next() : refused('An id is no UUID, or one of version 5.');
}
