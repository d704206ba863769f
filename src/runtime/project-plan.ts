/** The frameworks that are recognized. Each has a template of the same name, which defines its port, health check and protocol. */
export const frameworkNames = ['langgraph', 'crewai', 'openclaw'] as const;
export type FrameworkName = (typeof frameworkNames)[number];

/** Stands for the port in the commands and variables of a project where the port is chosen at the start. */
export const PORT_WORD = '${PORT}';
/** The port in a command, as people write it. */
const portVariable = /\$\{PORT\}|\$PORT\b/g;

/** Returns the text with the port, or the word that stands for it, in place of `$PORT` and `${PORT}`. */
export function withPort(text: string, port: string): string {
  return text.replaceAll(portVariable, () => port);
}

/** Returns the variables with the port, or the word that stands for it, in their values. */
export function variablesAt(variables: Readonly<Record<string, string>>, port: string): Record<string, string> {
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, withPort(value, port)]));
}

/** Returns the plan with the port, or the word that stands for it, in its commands and variables. */
export function planAt(plan: ProjectPlan, port: string): ProjectPlan {
  const at = (words: string[]) => words.map((word) => withPort(word, port));
  const env = variablesAt(plan.env, port);
  return { ...plan, start: at(plan.start), env, ...(plan.release === undefined ? {} : { release: at(plan.release) }) };
}

/** The folder of a project in which its own package manager is installed, where that is not npm. */
export const managerFolder = '.mooring-manager';
/** The folders of a project whose programs are on PATH, for its build and for its agent, the first one first. */
export const programFolders = ['.venv/bin', 'node_modules/.bin', `${managerFolder}/node_modules/.bin`] as const;
/** The folders that an installation makes. What a project has of them is left out. */
export const installedFolders = ['node_modules', '.venv', managerFolder] as const;

/**
 * The way in which a project that has no Dockerfile is installed, built and started. It is made of the project's files alone, by `planProject`, and each
 * runtime carries it out in its own way (docs/explanation/decisions/0040). All commands are in exec form and run in the project's folder, with its
 * `programFolders` at the beginning of PATH.
 */
export interface ProjectPlan {
  /** The kind of project that was found, for the build log, such as "a Python project (uv.lock)". */
  found: string;
  framework: FrameworkName | null;
  language: 'node' | 'python';
  /**
   * The files that `install` reads, relative to the project's folder. A change of other files does not repeat `install`. The list `['.']`
   * means that it reads the whole project.
   */
  manifests: string[];
  /** Install the dependencies, in this order. They may need the network. */
  install: string[][];
  /** Build the project after its files are copied, in this order. */
  build: string[][];
  start: string[];
  /** The command that runs once for each deployment, in a container of its own, before the agent starts; absent if there is none. */
  release?: string[];
  /** The environment variables of the build and the agent. They contain no secrets. */
  env: Record<string, string>;
  /** Sentences on what was decided, for the build log. */
  notes?: string[];
}

/** Variables that a build and an agent need as they are, since programs find others, and their files, by them. */
export const fixedVariables: ReadonlySet<string> = new Set(['PATH', 'HOME', 'LD_LIBRARY_PATH', 'LD_PRELOAD']);

/** Returns the agent's variables that the commands of a build get, the secrets among them included. */
export function variablesOfAgent({ agent = {}, secrets = {} }: BuildSettings): Record<string, string> {
  return Object.fromEntries(Object.entries({ ...agent, ...secrets }).filter(([name]) => !fixedVariables.has(name)));
}

/** The variables and certificates that the commands of a build get beside the plan. */
export interface BuildSettings {
  /** The agent's own variables that are not secret. What was built with others is not taken for what these make. */
  agent?: Record<string, string>;
  /** The agent's secret variables that the build is to get. They must not stay in the image by our doing. */
  secrets?: Record<string, string>;
  /** The values of the variables that `MOORING_BUILD_ENV` names: a mirror of a registry, for instance. They may hold credentials, so that none of it may stay in the image. */
  variables: Record<string, string>;
  /** The file of `MOORING_BUILD_CA_FILE`: PEM certificates that builds trust in addition to the usual ones. */
  caFile: string | null;
}
