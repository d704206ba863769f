import type { FrameworkName, ProjectPlan } from '../../runtime/project-plan.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { askedVersion } from './asked-version.ts';
import type { Command } from './command-words.ts';
import { npmQuiet } from './node-managers.ts';
import { nodeStart, nodeSteps, startLine, type Steps } from './node-project.ts';
import { jsonObject, packageJsonOf } from './package-json.ts';
import { readProjectFiles, type ProjectFiles } from './project-files.ts';
import { pipFile, pipFolder, pipPackages } from './pip-commands.ts';
import { procfileOf, releaseOf } from './procfile.ts';
import { pyprojectOf } from './pyproject.ts';
import { pythonSteps } from './python-project.ts';
import { listeningVariables, pythonStart } from './python-start.ts';

/** The program of OpenClaw's template that runs a command with the Node that OpenClaw needs. */
const WITH_NODE = '.mooring/with-node.mjs';

/** The names of graphs in langgraph.json: "./graph.ts:graph", or "package.module:graph". */
const nodeFile = /\.[cm]?[jt]sx?(:|$)/;
const pythonModule = /^[A-Za-z_][\w.]*:/;

type Language = ProjectPlan['language'];

const pythonLists = ['uv.lock', 'poetry.lock', 'Pipfile', 'pyproject.toml', 'requirements.txt', 'setup.py', 'main.py', 'app.py'];
const languageOfProgram: [RegExp, Language][] = [
  [/^(node|npm|npx|yarn|pnpm|bun|bunx|tsx|ts-node|nodemon|next|nest|nuxt|astro|remix-serve)$/, 'node'],
  [/^(python[\d.]*|gunicorn|uvicorn|hypercorn|daphne|flask|fastapi|waitress-serve|streamlit)$/, 'python'],
];

/**
 * Reads a few files at the top of a project and returns how it is installed, built and started. `PORT_WORD` stands for the agent's port
 * in its commands (`planAt`). `start` is the start command that was said; null means that the project says it. A framework's template may
 * have laid its own files into the folder `.mooring` before. Throws `RuntimeRefused` with a sentence for its owner.
 */
export async function planProject(directory: string, start: string[] | null = null): Promise<ProjectPlan> {
  return planOf(await readProjectFiles(directory), start);
}

/** Decides on the plan, as `planProject` does, from the contents of the files. */
export function planOf(files: ProjectFiles, start: string[] | null = null): ProjectPlan {
  const ofFramework = langgraph(files) ?? crew(files) ?? openclaw(files);
  const release = releaseOf(files.texts.get('Procfile') ?? '');
  const plan = start === null ? (ofFramework ?? procfile(files) ?? byLanguage(files)) : withStart(files, ofFramework, start);
  const asked = askedVersion(files, plan.language);
  const notes = [...(plan.notes ?? []), ...(asked === null ? [] : [asked]), ...(release?.notes ?? [])];
  return { ...plan, notes, ...(release === null ? {} : { release: release.command }) };
}

/** Returns the plan of a project whose start command was said, so that it need not say one itself. */
function withStart(files: ProjectFiles, ofFramework: ProjectPlan | null, start: string[]): ProjectPlan {
  if (ofFramework !== null) return { ...ofFramework, start };
  const language = languageOf(files, start[0] ?? '', 'the start command');
  const steps = language === 'node' ? bareOrNode(files, start.join(' ')) : pythonSteps(files, pyprojectOf(files));
  return planFrom(null, language, steps, { words: start, env: {} });
}

function langgraph(files: ProjectFiles): ProjectPlan | null {
  const text = files.texts.get('langgraph.json');
  if (text === undefined) return null;
  const { graphs, dependencies } = jsonObject(text, 'langgraph.json');
  const paths = Object.values(typeof graphs === 'object' && graphs !== null ? graphs : {}).map(graphPath);
  const isNode = paths.some((path) => nodeFile.test(path));
  const isPython = paths.some((path) => /\.py(:|$)/.test(path) || (pythonModule.test(path) && !nodeFile.test(path)));
  if (isNode === isPython) throw new RuntimeRefused('The file langgraph.json does not name graphs of one language, JavaScript or Python.');
  if (isNode) {
    const steps = nodeStepsOf(files, 'langgraph.json');
    return framework('langgraph', 'node', { ...steps, found: `a LangGraph project in JavaScript (langgraph.json)` }, files);
  }
  const steps = pythonSteps(files, pyprojectOf(files), true);
  const named = (Array.isArray(dependencies) ? dependencies : []).filter((item) => typeof item === 'string');
  const folders = named.filter((name) => /^\.\/?.+/.test(name) && name !== './');
  const packages = named.filter((name) => !name.startsWith('.'));
  if (folders.some((name) => name.split('/').includes('..')))
    throw new RuntimeRefused('The file langgraph.json names a dependency outside of the project.');
  return framework(
    'langgraph',
    'python',
    {
      found: 'a LangGraph project in Python (langgraph.json)',
      manifests: folders.length > 0 ? ['.'] : [...new Set(['langgraph.json', ...steps.manifests])],
      install: [...steps.install, ...(packages.length === 0 ? [] : [pipPackages(packages)]), ...folders.map(pipFolder)],
      build: steps.build,
    },
    files,
  );
}

function graphPath(graph: unknown): string {
  if (typeof graph === 'object' && graph !== null && 'path' in graph) return String(graph.path);
  return typeof graph === 'string' ? graph : '';
}

function crew(files: ProjectFiles): ProjectPlan | null {
  const pyproject = pyprojectOf(files);
  if (pyproject?.isCrew !== true) return null;
  return framework('crewai', 'python', { ...pythonSteps(files, pyproject, true), found: 'a crewAI project (pyproject.toml)' }, files);
}

function openclaw(files: ProjectFiles): ProjectPlan | null {
  const manifest = packageJsonOf(files);
  const isNamed = manifest !== null && Object.hasOwn(manifest.dependencies, 'openclaw');
  if (!isNamed && !files.names.has('openclaw.json')) return null;
  const found = `an OpenClaw project (${isNamed ? 'package.json' : 'openclaw.json'})`;
  const steps: Steps = manifest === null ? { found, manifests: [], install: [], build: [] } : nodeSteps(files, manifest, '');
  if (!files.names.has(WITH_NODE)) return framework('openclaw', 'node', { ...steps, found }, files);
  // OpenClaw refuses to be installed by the Node that the base image has. One that the project does not bring is a development dependency of the template's.
  const withNode = (command: string[]) => ['node', WITH_NODE, ...command];
  const bare = framework('openclaw', 'node', { found, manifests: [], install: [], build: [] }, files);
  const brought = isNamed ? [] : [['npm', 'install', '--prefix', '.mooring', '--include=dev', ...npmQuiet]];
  return {
    ...bare,
    manifests: steps.manifests.includes('.') ? steps.manifests : [...steps.manifests, ...bare.manifests, WITH_NODE],
    install: [...bare.install, ...[...brought, ...steps.install].map(withNode)],
    build: steps.build.map(withNode),
  };
}

/** Returns the plan of a framework's project: the template's own packages are installed too, and its program starts the project. */
function framework(name: FrameworkName, language: Language, steps: Steps, { names }: ProjectFiles): ProjectPlan {
  const own = (file: string) => names.has(`.mooring/${file}`);
  const isLocked = own('package-lock.json');
  const wrapper = {
    node: {
      manifests: ['.mooring/package.json', '.mooring/package-lock.json'],
      install: [['npm', isLocked ? 'ci' : 'install', '--prefix', '.mooring', '--omit=dev', ...npmQuiet]],
    },
    python: { manifests: ['.mooring/requirements.txt'], install: [pipFile('.mooring/requirements.txt')] },
  }[language];
  const hasOwn = own(language === 'node' ? 'package.json' : 'requirements.txt');
  const manifests = hasOwn ? wrapper.manifests.filter((file) => names.has(file)) : [];
  const { words, env } = { words: language === 'node' ? ['node', '.mooring/serve.mjs'] : ['python', '.mooring/serve.py'], env: {} };
  const whole = steps.manifests.includes('.') ? steps.manifests : [...steps.manifests, ...manifests];
  const install = [...steps.install, ...(hasOwn ? wrapper.install : [])];
  return planFrom(name, language, { ...steps, manifests: whole, install }, { words, env });
}

function procfile(files: ProjectFiles): ProjectPlan | null {
  const found = procfileOf(files.texts.get('Procfile') ?? '');
  if (found === null) return null;
  const { line, command, notes } = found;
  const language = languageOf(files, command.words[0] ?? '', 'the command of web in the Procfile');
  const steps = language === 'node' ? bareOrNode(files, line) : pythonSteps(files, pyprojectOf(files));
  const whole = { ...steps, found: `a Procfile with web, and ${steps.found}`, notes: [...(steps.notes ?? []), ...notes] };
  return planFrom(null, language, whole, command);
}

function languageOf(files: ProjectFiles, program: string, command: string): Language {
  const named = languageOfProgram.find(([pattern]) => pattern.test(program))?.[1];
  if (named !== undefined) return named;
  const { isNode, isPython } = languagesOf(files);
  if (isNode !== isPython) return isNode ? 'node' : 'python';
  throw new RuntimeRefused(
    `It is not clear in which language ${command} is written (${JSON.stringify(program.slice(0, 100))}): begin it with node or python, or give the project a Dockerfile.`,
  );
}

function byLanguage(files: ProjectFiles): ProjectPlan {
  const { isNode, isPython } = languagesOf(files);
  if (isNode && isPython)
    throw new RuntimeRefused(
      'The project is both a Node and a Python project: give it a Procfile with web, or a Dockerfile, so that it is clear how it is started.',
    );
  const manifest = packageJsonOf(files);
  if (manifest !== null) return planFrom(null, 'node', nodeSteps(files, manifest, startLine(manifest)), nodeStart(files, manifest));
  if (!isPython)
    throw new RuntimeRefused(
      `The project was not recognized. In its top folder these were looked for: Dockerfile, langgraph.json, [tool.crewai] in pyproject.toml, openclaw.json, Procfile with web, package.json, ${pythonLists.join(', ')}.`,
    );
  const pyproject = pyprojectOf(files);
  const start = pythonStart(files, pyproject);
  return planFrom(null, 'python', pythonSteps(files, pyproject), start);
}

function languagesOf({ names }: ProjectFiles): { isNode: boolean; isPython: boolean } {
  return { isNode: names.has('package.json'), isPython: pythonLists.some((name) => names.has(name)) };
}

function bareOrNode(files: ProjectFiles, line: string): Steps {
  const manifest = packageJsonOf(files);
  return manifest === null
    ? { found: 'a Node program without packages', manifests: [], install: [], build: [] }
    : nodeSteps(files, manifest, line);
}

function nodeStepsOf(files: ProjectFiles, beside: string): Steps {
  const manifest = packageJsonOf(files);
  if (manifest === null) throw new RuntimeRefused(`The project has a ${beside} with programs for Node, but no package.json beside it.`);
  return nodeSteps(files, manifest, '');
}

function planFrom(name: FrameworkName | null, language: Language, steps: Steps, { words, env }: Command): ProjectPlan {
  const fixed: Record<string, string> =
    language === 'node'
      ? { NODE_ENV: 'production', YARN_NODE_LINKER: 'node-modules' }
      : { PYTHONUNBUFFERED: '1', UV_PYTHON_DOWNLOADS: 'never', ...listeningVariables(words) };
  return { ...steps, framework: name, language, start: words, env: { ...fixed, ...env } };
}
