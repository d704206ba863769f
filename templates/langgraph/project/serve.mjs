// Serves the graphs that langgraph.json names by LangGraph's own server. Its state is on the agent's volume.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { publicRule } from './public.mjs';
import { answers, saveState, serverUrl } from './state.mjs';

const project = process.cwd();
const settings = JSON.parse(readFileSync(join(project, 'langgraph.json'), 'utf8'));

/** Makes the path of a program absolute, since the server would look for it on the volume: "./graph.mjs:graph". */
function inProject(program) {
  const [file, name] = program.split(':', 2);
  return name === undefined ? resolve(project, file) : `${resolve(project, file)}:${name}`;
}

function graphsOf({ graphs = {} }) {
  const paths = Object.entries(graphs).map(([id, graph]) => [id, inProject(typeof graph === 'string' ? graph : graph.path)]);
  if (paths.length === 0) throw new Error('langgraph.json names no graph');
  // Messages are for the graph "agent"; in a project that names none so, they are for its first one.
  return { agent: paths[0][1], ...Object.fromEntries(paths) };
}

/** Sets the variables of the project, of which the agent's own have precedence. */
function setVariables({ env }) {
  if (typeof env === 'string' && existsSync(join(project, env))) process.loadEnvFile(join(project, env));
  if (typeof env === 'object' && env !== null) for (const [name, value] of Object.entries(env)) process.env[name] ??= String(value);
}

const graphs = graphsOf(settings);
setVariables(settings);
if (Object.values(graphs).some((path) => /\.[cm]?tsx?(:|$)/.test(path))) {
  // Its module for CommonJS, which is what is resolved, looks for the others beside itself and does not find them.
  const api = createRequire(serverUrl)
    .resolve('tsx/esm/api')
    .replace(/\.cjs$/, '.mjs');
  const tsx = await import(pathToFileURL(api).href);
  tsx.register();
}
// A project with authentication of its own decides itself what its users may do.
if (process.env.LANGGRAPH_PUBLIC_API !== 'all' && !settings.auth?.path) answers.use('*', publicRule);
if (settings.http?.app) {
  const [file, name = 'default'] = inProject(settings.http.app).split(':', 2);
  answers.route('/', (await import(pathToFileURL(file).href))[name]);
}

const { startServer } = await import(serverUrl);
const { host, cleanup } = await startServer({
  port: Number(process.env.PORT ?? '8080'),
  host: process.env.HOST ?? '0.0.0.0',
  cwd: process.env.MOORING_VOLUME ?? project,
  nWorkers: 10,
  graphs,
  // LangGraph's Studio would be let in without authentication, by a header that anybody can send.
  ...(settings.auth?.path ? { auth: { disable_studio_auth: true, ...settings.auth, path: inProject(settings.auth.path) } } : {}),
  http: { ...settings.http, app: `${fileURLToPath(new URL('state.mjs', import.meta.url))}:answers` },
});

console.log(JSON.stringify({ level: 'info', message: 'the graphs are ready', port: Number(host.split(':').at(-1)) }));

async function end() {
  await saveState();
  await cleanup();
  process.exit(0);
}

process.once('SIGTERM', () => void end());
