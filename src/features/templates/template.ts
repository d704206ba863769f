import { type HealthCheck, type ProtocolSpec, historyKeepers } from '../../agent-protocol/protocol.ts';
import { protocolNames } from '../../agent-protocol/protocol-names.ts';
import type { ProjectPlan } from '../../runtime/project-plan.ts';
import type { ImageSource } from '../../runtime/image-source.ts';
import { Members } from './members.ts';

/** A variable that agents of the template support. */
export interface TemplateVariable {
  name: string;
  description: string;
  /** The value is true if the agent does not work without the variable. */
  required: boolean;
  secret: boolean;
}

/** A folder with a Dockerfile of the operator. */
export interface DockerfileFolder {
  kind: 'dockerfile';
  directory: string;
  dockerfile: string;
  start: null;
}

/** A folder with a project, built according to the plan. Without a plan, it is recognized by its files, like a repository. */
export interface ProjectFolder {
  kind: 'project';
  directory: string;
  plan: ProjectPlan | null;
}

/** A source for agents (a program of this repository or an image to build), and how to run and call it. */
export interface Template {
  id: string;
  name: string;
  description: string;
  source: Exclude<ImageSource, { kind: 'project' } | { kind: 'dockerfile' }> | DockerfileFolder | ProjectFolder;
  /** The port on which the agent listens; the default is 8080. */
  port: number;
  /** The health check; the default is `GET /healthz`. */
  health: HealthCheck;
  /** Null means the installation's default. */
  startTimeoutSeconds: number | null;
  /** The time between SIGTERM and SIGKILL in seconds; the default is 10, the maximum 120. */
  stopGraceSeconds: number;
  protocol: ProtocolSpec;
  /** Null means the installation's default. */
  resources: { memoryMb: number | null; pids: number | null };
  /** The variables that an agent starts with; the agent's own variables override them. */
  env: Record<string, string>;
  variables: TemplateVariable[];
  /** The user of the container; null means the image's own. */
  user: string | null;
  readOnlyRoot: boolean;
  /** The paths of the tmpfs mounts. */
  tmpfs: string[];
}

/** The port of an agent whose template names none, or that has no template. */
export const DEFAULT_PORT = 8080;

const ID = /^[a-z][a-z0-9-]{0,62}$/;
const VARIABLE = /^(?!PORT$|MOORING_)[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const URL_PATH = /^\/[\x21-\x7e]{0,255}$/;
const FOLDER = /^(\/[A-Za-z0-9._-]+)+$/;
const FILE = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/;
const WORD = /^[^\0]{1,4096}$/;
/** A path below the project's folder, or the folder itself. */
const MANIFEST = /^(?!.*(^|\/)\.\.(\/|$))[^\0/\\][^\0\\]{0,499}$/;
const USER = /^[a-z0-9_][a-z0-9_-]{0,31}(:[a-z0-9_][a-z0-9_-]{0,31})?$/;

/** Parses a template.json. `directory` is its folder, whose name is the template's id. Throws one error that lists every fault. */
export function parseTemplate(text: string, id: string, directory: string): Template {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`template ${id}: template.json is no JSON (${(error as Error).message})`, { cause: error });
  }
  const problems: string[] = [];
  const template = templateFrom(new Members(value, '', problems), id, directory);
  if (problems.length > 0) throw new Error(`template ${id}: ${problems.join('; ')}`);
  return template;
}

function templateFrom(members: Members, folder: string, directory: string): Template {
  const id = members.text('id', ID);
  if (id !== folder) members.fault('id', `must be the folder's name, ${folder}`);
  const template: Template = {
    id,
    name: members.text('name', /^.{1,63}$/u),
    description: members.text('description', /^.{1,500}$/u),
    source: sourceFrom(members.object('source'), directory),
    port: members.integer('port', 1, 65_535, DEFAULT_PORT),
    health: healthFrom(members.object('health', { path: '/healthz' })),
    startTimeoutSeconds: members.integerOrNull('start_timeout', 1, 3_600),
    stopGraceSeconds: members.integer('stop_grace', 0, 120, 10),
    protocol: protocolFrom(members.object('protocol', { name: 'mooring' })),
    resources: resourcesFrom(members.object('resources', {})),
    env: members.texts('env', VARIABLE, 32_768),
    variables: members.objects('variables', 100).map(variableFrom),
    user: members.textOrNull('user', USER),
    readOnlyRoot: members.flag('read_only_root', false),
    tmpfs: members.list('tmpfs', FOLDER, 20),
  };
  members.refuseOthers();
  return template;
}

function sourceFrom(source: Members, directory: string): Template['source'] {
  const kind = source.choice('kind', ['program', 'dockerfile', 'project'] as const);
  const made = {
    program: () => ({
      kind: 'program' as const,
      directory,
      language: source.choice('language', ['node'] as const),
      start: source.list('start', WORD, 64, 1),
    }),
    dockerfile: () => ({ kind: 'dockerfile' as const, directory, dockerfile: source.text('dockerfile', FILE), start: null }),
    project: () => ({ kind: 'project' as const, directory, plan: planFrom(source) }),
  }[kind]();
  source.refuseOthers();
  return made;
}

/** Returns null if no member of a plan is given. */
function planFrom(source: Members): ProjectPlan | null {
  if (!['language', 'manifests', 'install', 'build', 'start'].some((name) => source.has(name))) return null;
  const manifests = source.list('manifests', MANIFEST, 100);
  return {
    found: 'the project of the template',
    framework: null,
    language: source.choice('language', ['node', 'python'] as const),
    manifests: manifests.length === 0 ? ['.'] : manifests,
    install: source.lists('install', WORD, 64),
    build: source.lists('build', WORD, 64),
    start: source.list('start', WORD, 64, 1),
    env: {},
  };
}

function healthFrom(health: Members): HealthCheck {
  if (health.has('tcp')) {
    if (!health.flag('tcp', false)) health.fault('tcp', 'must be true where it is given');
    health.refuseOthers();
    return { tcp: true };
  }
  const path = health.text('path', URL_PATH);
  health.refuseOthers();
  return { path };
}

function protocolFrom(protocol: Members): ProtocolSpec {
  const name = protocol.choice('name', protocolNames);
  const path = protocol.textOrNull('path', URL_PATH);
  const model = protocol.textOrNull('model', /^[\x21-\x7e]{1,200}$/);
  const history = protocol.has('history') ? protocol.choice('history', historyKeepers) : null;
  const assistantId = protocol.textOrNull('assistant_id', /^[\x21-\x7e]{1,200}$/);
  protocol.refuseOthers();
  return {
    name,
    ...(path === null ? {} : { path }),
    ...(model === null ? {} : { model }),
    ...(history === null ? {} : { history }),
    ...(assistantId === null ? {} : { assistantId }),
  };
}

function resourcesFrom(resources: Members): Template['resources'] {
  const memoryMb = resources.integerOrNull('memory_mb', 16, 1_048_576);
  const pids = resources.integerOrNull('pids', 16, 1_000_000);
  resources.refuseOthers();
  return { memoryMb, pids };
}

function variableFrom(variable: Members): TemplateVariable {
  const made = {
    name: variable.text('name', VARIABLE),
    description: variable.text('description', /^.{1,500}$/u),
    required: variable.flag('required', false),
    secret: variable.flag('secret', false),
  };
  variable.refuseOthers();
  return made;
}
