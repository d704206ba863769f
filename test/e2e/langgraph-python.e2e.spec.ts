import { resolve } from 'node:path';

import { Client } from '@langchain/langgraph-sdk';

import { FrameworkAgent, frameworkEnvironment } from '../support/framework-agent.ts';
import { frameworkRepositories } from '../support/framework-repositories.ts';
import { GitServer } from '../support/git-server.ts';
import {
  factoryProjects,
  importProjects,
  notingProject,
  pythonGraphRepositories,
  steppedProject,
} from '../support/langgraph-python/projects.ts';
import { threadsOfOthers } from '../support/langgraph-public.ts';
import { ModelServer } from '../support/model-server.ts';
import { pypiAnswers, PythonEnvironment } from '../support/python-environment.ts';
import { TemplateServer } from '../support/template-server.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/**
 * Graphs of LangGraph in Python, served by the program that is added to their repositories, and called by LangGraph's own clients. The tests
 * need PyPI. If it does not answer, they report that and pass.
 */

const TIMEOUT_MS = 600_000;
const client = resolve(import.meta.dirname, '../support/langgraph-python/client.py');
const requirements = resolve(import.meta.dirname, '../../templates/langgraph/project/requirements.txt');
const thread = '0190b1c2-0000-7000-8000-000000000001';
const forwarded = { forwarded: 'for=203.0.113.7;host="mooring.example.com";proto=https' };
const said = (text: string) => ({ messages: [{ role: 'user', content: text }] });
const run = (text: string, more: object = {}) => ({ assistant_id: 'agent', input: said(text), if_not_exists: 'create', ...more });

let python: PythonEnvironment;
let isReached: boolean;

beforeAll(async () => {
  isReached = await pypiAnswers();
  if (isReached) python = await PythonEnvironment.make('-r', requirements, 'langgraph>=1.2');
  else console.warn('PyPI does not answer, so LangGraph in Python was not tried.');
});
afterAll(() => python?.remove());

const program = () => ({ interpreter: python.python, file: 'langgraph/project/serve.py' }) as const;

/** Serves a project while the work lasts. */
async function serving(
  files: Record<string, string>,
  work: (server: TemplateServer) => Promise<void>,
  environment: Record<string, string> = {},
): Promise<void> {
  if (!isReached) return;
  const server = await TemplateServer.start(program(), files, environment);
  try {
    await work(server);
  } finally {
    await server.dispose();
  }
}

function lastOf(values: unknown): unknown {
  return (values as { messages: { content: unknown }[] }).messages.at(-1)?.content;
}

async function lastNoteOf(server: TemplateServer): Promise<true | undefined> {
  return (await server.file('notes')).endsWith('left ') ? true : undefined;
}

describe('a project of LangGraph in Python', () => {
  it.each(Object.entries({ ...importProjects, ...factoryProjects }))('with %s keeps its threads', async (_, files) => {
    await serving(files, async (server) => {
      const path = `/threads/${thread}/runs/wait`;
      expect(lastOf((await server.call('POST', path, run('#one'))).json)).toBe('I remember #one');
      expect(lastOf((await server.call('POST', path, run('#two'))).json)).toBe('I remember #one #two');
      const { json } = await server.call('GET', `/threads/${thread}/state`);
      expect(json).toMatchObject({ next: [], checkpoint: { thread_id: thread, checkpoint_ns: '' } });
    });
  });

  it('leaves the context manager that made a graph after each run, also of one that fails or is cancelled', async () => {
    await serving(notingProject, async (server) => {
      await server.call('POST', `/threads/${thread}/runs/wait`, run('hello'));
      expect(await server.file('notes')).toBe('entered done left ');
      const failed = await server.call('POST', `/threads/${thread}/runs/wait`, run('fail'));
      expect(failed.json).toEqual({ __error__: { error: 'ValueError', message: 'it can not be done' } });
      expect(await server.file('notes')).toBe('entered done left entered ValueError left ');
      const ended = await server.call('POST', `/threads/${thread}/runs/wait`, run('exit'));
      expect(ended.json).toMatchObject({ __error__: { message: expect.stringContaining('asked for the end of the program') } });
      expect(await server.file('notes')).toMatch(/SystemExit left $/);
      const { json } = await server.call('POST', `/threads/${thread}/runs`, run('wait'));
      const waits = async () => ((await server.file('notes')).endsWith('waiting ') ? true : undefined);
      await until('the run waits', waits, { timeoutMs: TIMEOUT_MS });
      const path = `/threads/${thread}/runs/${(json as { run_id: string }).run_id}`;
      expect((await server.call('POST', `${path}/cancel?wait=true`)).status).toBe(204);
      expect(await server.file('notes')).toMatch(/ waiting CancelledError left $/);
      expect((await server.call('GET', path)).json).toMatchObject({ status: 'interrupted' });
      expect((await server.call('GET', `/threads/${thread}`)).json).toMatchObject({ status: 'idle' });
    });
  });

  it('cancels a run whose reader goes away, if the reader asked for that', async () => {
    await serving(notingProject, async (server) => {
      const reading = new AbortController();
      const body = JSON.stringify(run('wait', { on_disconnect: 'cancel' }));
      const headers = { 'content-type': 'application/json' };
      await fetch(`${server.url}/threads/${thread}/runs/wait`, { method: 'POST', body, headers, signal: reading.signal });
      reading.abort();
      await until('the run has ended', () => lastNoteOf(server), { timeoutMs: TIMEOUT_MS });
      expect(await server.file('notes')).toMatch(/CancelledError left $/);
    });
  });

  it('goes on with a run that a kill cut off, from the step that was reached', async () => {
    await serving(steppedProject, async (server) => {
      const { json } = await server.call('POST', `/threads/${thread}/runs`, run('#one'));
      await server.call('PUT', '/store/items', { namespace: ['a'], key: 'b', value: { c: 1 } });
      const waits = async () => ((await server.file('steps')) === 'count wait ' ? true : undefined);
      await until('the run waits', waits, { timeoutMs: TIMEOUT_MS });
      await server.end('SIGKILL');
      await server.start();
      expect((await server.call('GET', `/threads/${thread}`)).json).toMatchObject({ status: 'busy' });
      await server.writeFile('go', '');
      const joined = await server.call('GET', `/threads/${thread}/runs/${(json as { run_id: string }).run_id}/join`);
      expect(lastOf(joined.json)).toBe('I remember #one');
      expect(await server.file('steps')).toBe('count wait wait ');
      expect((await server.call('GET', '/store/items?namespace=a&key=b')).json).toMatchObject({ value: { c: 1 } });
    });
  });

  it('has one run at a time on a thread, by the strategy that the caller chose', async () => {
    await serving(steppedProject, async (server) => {
      const runs = `/threads/${thread}/runs`;
      const first = (await server.call('POST', runs, run('#one'))).json as { run_id: string };
      expect(await server.call('POST', runs, run('#two'))).toMatchObject({
        status: 422,
        json: { detail: expect.stringContaining('already running') },
      });
      const second = (await server.call('POST', runs, run('#two', { multitask_strategy: 'enqueue' }))).json as { run_id: string };
      expect(second).toMatchObject({ status: 'pending' });
      await server.writeFile('go', '');
      expect(lastOf((await server.call('GET', `${runs}/${second.run_id}/join`)).json)).toBe('I remember #one #two');
      const undone = (await server.call('POST', runs, run('#three'))).json as { run_id: string };
      await server.call('GET', `${runs}/${undone.run_id}/join`);
      expect((await server.call('GET', runs)).json).toMatchObject([{ status: 'success' }, { status: 'success' }, { run_id: first.run_id }]);
    });
  });

  it('takes a run back that is cancelled by rollback', async () => {
    await serving(steppedProject, async (server) => {
      const { json } = await server.call('POST', `/threads/${thread}/runs`, run('#one'));
      await until('the run waits', async () => ((await server.file('steps')) === 'count wait ' ? true : undefined), {
        timeoutMs: TIMEOUT_MS,
      });
      const path = `/threads/${thread}/runs/${(json as { run_id: string }).run_id}`;
      expect((await server.call('POST', `${path}/cancel?action=rollback&wait=1`)).status).toBe(204);
      expect((await server.call('GET', path)).status).toBe(404);
      expect((await server.call('GET', `/threads/${thread}/state`)).json).toMatchObject({ values: {}, next: [] });
    });
  });

  it('asks questions, whose answers are the next runs', async () => {
    await serving(steppedProject, async (server) => {
      const wait = (more: object) =>
        server.call('POST', `/threads/${thread}/runs/wait`, { assistant_id: 'asking', if_not_exists: 'create', ...more });
      expect((await wait({ input: said('hello') })).json).toMatchObject({ __interrupt__: [{ value: 'which one?' }] });
      const { json } = await server.call('POST', '/threads/search', { ids: [thread], select: ['thread_id', 'status', 'interrupts'] });
      expect(json).toEqual([{ thread_id: thread, status: 'interrupted', interrupts: expect.anything() }]);
      const [{ interrupts }] = json as [{ interrupts: object }];
      expect(Object.values(interrupts)).toEqual([[{ id: expect.any(String), value: 'which one?' }]]);
      expect(lastOf((await wait({ command: { resume: 'the red one' } })).json)).toBe('you said the red one');
      expect((await server.call('GET', `/threads/${thread}`)).json).toMatchObject({ status: 'idle', interrupts: {} });
    });
  });

  it('answers what it does not know, and what is wrong, with a sentence as JSON', async () => {
    await serving(importProjects['types.py'] ?? {}, async (server) => {
      const runs = `/threads/${thread}/runs`;
      const wrong: [string, string, unknown, number, string][] = [
        ['GET', '/runs/crons', undefined, 404, 'This server has no GET /runs/crons.'],
        ['BREW', '/ok', undefined, 501, 'Unsupported method'],
        ['GET', `/threads/${thread}`, undefined, 404, 'not found'],
        ['GET', '/threads/mine', undefined, 422, 'is no UUID'],
        ['POST', `${runs}/wait`, run('hello', { if_not_exists: 'reject' }), 404, 'not found'],
        ['POST', `${runs}/wait`, run('hello', { assistant_id: 'nobody' }), 404, 'No assistant found'],
        ['POST', `${runs}/wait`, run('hello', { stream_mode: 'tokens' }), 422, 'tokens'],
        ['POST', `${runs}/wait`, run('hello', { metadata: 'me' }), 422, 'metadata is not an object'],
        ['POST', `${runs}/wait`, run('hello', { webhook: 'http://127.0.0.1' }), 422, 'webhook'],
        ['POST', '/threads/search', { limit: 0 }, 422, 'limit'],
        ['PUT', '/store/items', { namespace: [], key: 'a', value: {} }, 422, 'amespace'],
      ];
      for (const [method, path, body, status, sentence] of wrong)
        expect([path, await server.call(method, path, body)]).toMatchObject([
          path,
          { status, json: { detail: expect.stringContaining(sentence) } },
        ]);
      expect((await server.call('GET', '/ok')).json).toEqual({ ok: true });
      expect((await server.call('GET', '/info')).json).toMatchObject({
        version: expect.stringMatching(/^1\./),
        flags: { assistants: true },
      });
    });
  });

  it('of a public agent shows, changes and deletes nothing of others, unless its owner opens it', async () => {
    const files = importProjects['a graph named as its package'] ?? {};
    await serving(files, (server) => threadsOfOthers(server, forwarded));
    const work = async (server: TemplateServer) => {
      await server.call('POST', '/threads', {});
      expect((await server.call('POST', '/threads/search', {}, forwarded)).json).toHaveLength(1);
      expect((await server.call('POST', '/store/namespaces', {}, forwarded)).status).toBe(200);
    };
    await serving(files, work, { LANGGRAPH_PUBLIC_API: 'all' });
  });

  it('with authentication of its own is not served without it', async () => {
    if (!isReached) return;
    const files = {
      'langgraph.json': JSON.stringify({ graphs: { agent: './graph.py:graph' }, auth: { path: './auth.py:auth' } }),
      'graph.py': 'graph = 1\n',
    };
    await expect(TemplateServer.start(program(), files)).rejects.toThrow('names auth, which this server does not have');
  });
});

describe('LangGraph’s own clients', () => {
  it('for Python finds the routes that it calls', async () => {
    await serving(importProjects['a graph named as its package'] ?? {}, async (server) => {
      expect(JSON.parse(await python.output([client, server.url]))).toEqual({
        assistants: { graphs: ['agent'], got: true, input: ['messages'], nodes: ['__end__', '__start__', 'answer'] },
        threads: {
          wait: 'I remember #one',
          events: ['messages', 'metadata', 'updates', 'values'],
          streamed: 'I remember #one #two',
          values: 'I remember #one #two',
          join: 'I remember #one #two #three',
          state: 'I remember #one #two #three',
          next: [],
          history: ['I remember #one #two #three'],
          copied: '#four',
          found: [true],
          metadata: { owner: 'me', topic: 'tides', graph_id: 'agent' },
          runs: ['success', 'success', 'success'],
          left: 1,
        },
        stateless: { wait: 'I remember #alone', batch: ['pending', 'pending'] },
        store: {
          item: { name: 'blue' },
          found: [{ name: 'red' }],
          namespaces: [
            ['users', '1'],
            ['users', '2'],
          ],
          left: [['users', '1']],
        },
      });
    });
  });
});

describe('a repository of LangGraph in Python', () => {
  let service: StartedService;
  let model: ModelServer;
  let git: GitServer;

  beforeAll(async () => {
    model = await ModelServer.start();
    git = await GitServer.start();
    const environment = { ...frameworkEnvironment, MOORING_ALLOW_PRIVATE_SOURCES: git.host };
    service = await StartedService.start({ runtime: 'local', environment });
  });
  afterAll(async () => {
    await service?.dispose();
    await git?.close();
    await model?.stop();
  });

  const deploy = (name: string, files: Record<string, unknown>) => {
    git.commit(name, files as Parameters<GitServer['commit']>[1]);
    return FrameworkAgent.deploy(service, model.url, { repo_url: git.url(name) }, TIMEOUT_MS);
  };

  it('with requirements.txt in the agent’s folder chats, and remembers', async () => {
    if (!isReached) return;
    const agent = await deploy('requirements', pythonGraphRepositories['requirements in the agent’s folder'] ?? {});
    expect(await agent.says('#one')).toBe('I remember #one');
    await agent.freeze();
    expect(await agent.says('#two')).toBe('I remember #one #two');
    await agent.stopAndStart(TIMEOUT_MS);
    expect(await agent.says('#three')).toBe('I remember #one #two #three');
  });

  it('whose state has no messages is deployed, and a chat says so', async () => {
    if (!isReached) return;
    const agent = await deploy('state', pythonGraphRepositories['a state without messages'] ?? {});
    await expect(agent.says('hello')).rejects.toThrow('the run ended without a message of the agent');
  });

  it('is called by LangGraph’s own clients at its public address, and by chats', async () => {
    if (!isReached) return;
    const agent = await deploy('graph', frameworkRepositories['langgraph-python'] ?? {});
    const opened = await service.call('PATCH', `/api/v1/agents/${agent.id}`, { public: true });
    expect(opened.status).toBe(200);
    expect(await agent.says('#chat')).toBe('I remember #chat');
    const url = `${service.firstRun.url}/a/${agent.id}`;
    const inJavaScript = new Client({ apiUrl: url, callerOptions: { maxRetries: 0 } });
    const { thread_id: id } = await inJavaScript.threads.create();
    expect(lastOf(await inJavaScript.runs.wait(id, 'agent', { input: said('#js') }))).toBe('I remember #js');
    const pieces: string[] = [];
    for await (const { event, data } of inJavaScript.runs.stream(id, 'agent', { input: said('#more'), streamMode: 'messages-tuple' }))
      if (event === 'messages') pieces.push(data[0].content as string);
    expect(pieces.join('')).toBe('I remember #js #more');
    expect(pieces.length).toBeGreaterThan(1);
    expect(await inJavaScript.threads.search()).toEqual([]);
    await expect(inJavaScript.store.putItem(['a'], 'b', { c: 1 })).rejects.toThrow('not open to the public');
    await service.call('POST', `/api/v1/agents/${agent.id}/env`, { key: 'LANGGRAPH_PUBLIC_API', value: 'all' });
    await agent.stopAndStart(TIMEOUT_MS);
    expect(await inJavaScript.threads.search()).toHaveLength(2);
    await inJavaScript.store.putItem(['a'], 'b', { c: 1 });
    expect((await inJavaScript.store.getItem(['a'], 'b'))?.value).toEqual({ c: 1 });
    const inPython = JSON.parse(await python.output([client, url]));
    expect(inPython).toMatchObject({
      assistants: { graphs: ['agent'] },
      threads: { wait: 'I remember #one', streamed: 'I remember #one #two', join: 'I remember #one #two #three' },
      stateless: { wait: 'I remember #alone' },
      store: { item: { name: 'blue' } },
    });
    expect(await agent.says('#again')).toBe('I remember #chat #again');
  });
});
