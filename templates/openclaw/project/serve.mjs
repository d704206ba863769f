// Runs an OpenClaw gateway on the loopback address, and passes chats on to it. The gateway's token gives the rights of its operator, so it
// stays in this process: of all that the gateway offers, callers reach the chat alone.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pipeline } from 'node:stream';

const { env, arch } = process;
const project = process.cwd();
const state = join(env.MOORING_VOLUME ?? project, 'openclaw');
const port = Number(env.PORT ?? '8080');
const gatewayPort = port === 65_535 ? port - 1 : port + 1;
const token = randomBytes(32).toString('hex');
const model = env.OPENAI_MODEL || 'gpt-4o-mini';
const PATH = '/v1/chat/completions';

/** OpenClaw needs a newer Node than the base image may have, so a package brings it. */
const node = inPackages(`node-linux-${arch}/bin/node`);
const openclaw = inPackages('openclaw/openclaw.mjs');
/** OpenClaw's own settings are JSON5: names without quotes, comments, commas at the end. */
const json5 = createRequire(realpathSync(openclaw))('json5');

const provider = {
  baseUrl: env.OPENAI_BASE_URL || 'https://api.openai.com/v1',
  // OpenClaw reads the variable itself, so that the key is in no file.
  apiKey: '${OPENAI_API_KEY}',
  api: 'openai-completions',
  models: [
    { id: model, name: model, reasoning: false, input: ['text'], contextWindow: number(env.CONTEXT_WINDOW, 128_000), maxTokens: 8_192 },
  ],
};

/** The defaults of this template, which the project's openclaw.json overrides. Nothing here wakes the agent by itself or calls home. */
const defaults = {
  models: { mode: 'merge', providers: { mooring: provider }, catalogRefresh: { enabled: false } },
  agents: { defaults: { model: { primary: `mooring/${model}` }, heartbeat: { every: '0m' }, workspace: join(state, 'workspace') } },
  cron: { enabled: false },
  discovery: { mdns: { mode: 'off' } },
  logging: { consoleStyle: 'json' },
  // Searching the memory by meaning would send texts to OpenAI, also where the model is somewhere else.
  memory: { search: { enabled: false } },
  update: { checkOnStart: false },
};

const fixed = {
  gateway: {
    mode: 'local',
    port: gatewayPort,
    bind: 'loopback',
    auth: { mode: 'token' },
    controlUi: { enabled: false },
    http: { endpoints: { chatCompletions: { enabled: true } } },
  },
};

/** Returns the file of a package, of the project's own before the one that came with this program. */
function inPackages(path) {
  const folders = [project, import.meta.dirname].map((folder) => join(folder, 'node_modules', path));
  const found = folders.find((file) => existsSync(file));
  if (found === undefined) throw new Error(`the package of ${path} is not installed`);
  return found;
}

function number(text, fallback) {
  return Number.isInteger(Number(text || fallback)) ? Number(text || fallback) : fallback;
}

function merged(base, over) {
  const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject(base) || !isObject(over)) return over;
  const names = [...new Set([...Object.keys(base), ...Object.keys(over)])];
  return Object.fromEntries(names.map((name) => [name, name in over ? merged(base[name], over[name]) : base[name]]));
}

function ownSettings() {
  const file = join(project, 'openclaw.json');
  return existsSync(file) ? json5.parse(readFileSync(file, 'utf8')) : {};
}

function startGateway() {
  mkdirSync(state, { recursive: true, mode: 0o700 });
  writeFileSync(join(state, 'openclaw.json'), JSON.stringify(merged(merged(defaults, ownSettings()), fixed)), { mode: 0o600 });
  const gateway = spawn(node, [openclaw, 'gateway', 'run'], {
    stdio: 'inherit',
    env: {
      OPENAI_API_KEY: 'none',
      ...env,
      OPENCLAW_STATE_DIR: state,
      OPENCLAW_CONFIG_PATH: join(state, 'openclaw.json'),
      OPENCLAW_GATEWAY_TOKEN: token,
      OPENCLAW_NO_RESPAWN: '1',
      OPENCLAW_DISABLE_BONJOUR: '1',
    },
  });
  // The gateway completes the turns that are in progress before it ends.
  process.on('SIGTERM', () => gateway.kill('SIGTERM'));
  gateway.on('exit', (code) => process.exit(code ?? 1));
}

const isAllowed = ({ method, url }) => (method === 'POST' && url === PATH) || (method === 'GET' && url === '/readyz');

const server = createServer((incoming, outgoing) => {
  if (!isAllowed(incoming)) return outgoing.writeHead(404).end();
  const { 'content-length': length, accept = '*/*' } = incoming.headers;
  const headers = {
    accept,
    'content-type': 'application/json',
    ...(incoming.method === 'GET' ? {} : { authorization: `Bearer ${token}` }),
    ...(length === undefined ? {} : { 'content-length': length }),
  };
  const call = request({ host: '127.0.0.1', port: gatewayPort, method: incoming.method, path: incoming.url, headers });
  call.on('response', (answer) => {
    outgoing.writeHead(answer.statusCode, { 'content-type': answer.headers['content-type'] ?? 'application/json' });
    pipeline(answer, outgoing, () => undefined);
  });
  call.on('error', () =>
    outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(503).end('{"error":{"message":"OpenClaw is starting."}}'),
  );
  outgoing.on('close', () => call.destroy());
  pipeline(incoming, call, () => undefined);
});
server.requestTimeout = 0;
server.listen(port, env.HOST ?? '0.0.0.0');
startGateway();
