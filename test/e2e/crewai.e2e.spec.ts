import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { ModelServer } from '../support/model-server.ts';
import { pypiAnswers, PythonEnvironment } from '../support/python-environment.ts';
import { TemplateServer } from '../support/template-server.ts';

/**
 * Projects of crewAI, as its own tool makes them, served by the program that is added to their repositories. Deployments of such repositories
 * are tested in `npm run bench -- frameworks:repositories/crewai`. The tests need PyPI. If it does not answer, they report that and pass.
 */

type Files = Record<string, string>;

const TIMEOUT_MS = 600_000;
const requirements = resolve(import.meta.dirname, '../../templates/crewai/requirements.txt');

let python: PythonEnvironment;
let model: ModelServer;
let isReached: boolean;

beforeAll(async () => {
  isReached = await pypiAnswers();
  model = await ModelServer.start();
  if (isReached) python = await PythonEnvironment.make('-r', requirements);
  else console.warn('PyPI does not answer, so crewAI was not tried.');
}, TIMEOUT_MS);
afterAll(async () => {
  await python?.remove();
  await model?.stop();
});

/** Returns the files of a project that crewAI's own tool makes. */
async function made(...words: string[]): Promise<Files> {
  const folder = await mkdtemp(join(tmpdir(), 'mooring-crewai-'));
  // CREWAI_DMN has the tool ask no questions.
  const environment = { HOME: folder, CREWAI_DMN: 'true', CREWAI_DISABLE_TELEMETRY: 'true', OTEL_SDK_DISABLED: 'true' };
  try {
    await python.output(['-c', 'from crewai_cli.cli import crewai; crewai()', 'create', ...words], environment, folder);
    const [project = ''] = (await readdir(folder)).filter((name) => name === words[1]?.replaceAll('-', '_'));
    const names = await readdir(join(folder, project), { recursive: true, withFileTypes: true });
    const files = names
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('/.git'))
      .map((entry) => join(entry.parentPath, entry.name));
    return Object.fromEntries(
      await Promise.all(files.map(async (file) => [file.slice(join(folder, project).length + 1), await readFile(file, 'utf8')] as const)),
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Serves a project while the work lasts. */
async function serving(files: Files, work: (server: TemplateServer) => Promise<void>): Promise<void> {
  const server = await TemplateServer.start({ interpreter: python.python, file: 'crewai/project/serve.py' }, files, {
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: 'none',
  });
  try {
    await work(server);
  } finally {
    await server.dispose();
  }
}

async function say(server: TemplateServer, text: string): Promise<string> {
  const { status, text: body } = await server.call('POST', '/messages', { id: crypto.randomUUID(), conversation_id: 'c1', text });
  if (status !== 200) throw new Error(`${status}: ${body}\n${server.output.join('\n')}`);
  return (JSON.parse(body) as { response: string }).response;
}

const warnings = ({ output }: TemplateServer) => output.filter((line) => line.startsWith('{"level": "warning"'));

describe('a project of crewAI', () => {
  it('in JSON, as `crewai create crew` makes it, replies, and says once that it has no place for messages', async () => {
    if (!isReached) return;
    const files = await made('crew', 'tides', '--skip-provider');
    expect(Object.keys(files)).toEqual(expect.arrayContaining(['crew.jsonc', 'agents/researcher.jsonc', 'pyproject.toml']));
    await serving(files, async (server) => {
      expect(await say(server, '#one')).toMatch(/^I remember/);
      expect(await say(server, '#two')).toMatch(/^I remember/);
      expect(warnings(server)).toEqual([expect.stringContaining('no task and no agent of the crew has a place such as {message}')]);
    });
    const { 'crew.jsonc': crew = '' } = files;
    const heard = crew
      .replace('Research current AI trends', 'Answer {message} in {language}')
      .replace('"inputs": {}', '"inputs": {"language": "#welsh"}');
    expect(heard).not.toBe(crew);
    await serving({ ...files, 'crew.jsonc': heard }, async (server) => {
      expect(await say(server, '#three')).toBe('I remember #three #welsh');
      expect(warnings(server)).toEqual([]);
    });
  });

  it('of classes, as `crewai create crew --classic` makes it, gets the message as its topic', async () => {
    if (!isReached) return;
    await serving(await made('crew', 'latest-news', '--classic', '--skip-provider'), async (server) => {
      expect(await say(server, '#one')).toContain('#one');
      expect(await say(server, '#two')).toContain('#two');
      expect(warnings(server)).toEqual([]);
    });
  });

  it('that is a flow replies with its state, and says once that no field of it takes the message', async () => {
    if (!isReached) return;
    const flow = (field: string) => ({
      'pyproject.toml': '[project]\nname = "poem"\nversion = "0.1.0"\n\n[tool.crewai]\ntype = "flow"\n',
      'src/poem/__init__.py': '',
      'src/poem/main.py': `from pydantic import BaseModel

from crewai.flow import Flow, listen, start


class PoemState(BaseModel):
    ${field}: str = ""
    poem: str = ""


class PoemFlow(Flow[PoemState]):
    @start()
    def begin(self, crewai_trigger_payload: dict = None):
        pass

    @listen(begin)
    def write(self):
        self.state.poem = f"a poem about [{self.state.${field}}]"


def kickoff():
    PoemFlow().kickoff()
`,
    });
    await serving(flow('topic'), async (server) => {
      for (const word of ['#one', '#two']) expect(await say(server, word)).toContain('a poem about []');
      expect(warnings(server)).toEqual([expect.stringContaining('no field named message')]);
    });
    await serving(flow('message'), async (server) => {
      expect(await say(server, '#one')).toContain('a poem about [#one]');
      expect(warnings(server)).toEqual([]);
    });
  });
});
