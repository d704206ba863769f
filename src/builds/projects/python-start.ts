import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { PORT_WORD, withPort } from '../../runtime/project-plan.ts';
import type { Command } from './command-words.ts';
import { pipfileOf } from './pipfile.ts';
import type { ProjectFiles } from './project-files.ts';
import type { Pyproject } from './pyproject.ts';

const programs = ['main.py', 'app.py'];
/** An app of a web framework at the top level of a module. */
const app = /^([A-Za-z_]\w*)[ \t]*(?::[ \t]*[\w.]+[ \t]*)?=[ \t]*(?:\w+\.)?(FastAPI|Starlette|Litestar|Quart|Flask)[ \t]*\(/m;
/** A sign that the module serves its app when it is run. */
const serves = /__name__[ \t]*==|\.run\(|\brun\(|\bserve\(|serve_forever\(/;
const requirement = /^[ \t]*([A-Za-z0-9][\w.-]*)[ \t]*(\[[^\]\n]*\])?/;
/** Variables by which servers learn where to listen if their command line does not say it. */
const listening: Record<string, Record<string, string>> = {
  uvicorn: { UVICORN_HOST: '0.0.0.0' },
  flask: { FLASK_RUN_HOST: '0.0.0.0' },
};

interface Server {
  package: string;
  line: (module: string) => string;
}

const uvicorn: Server = { package: 'uvicorn', line: (module) => `uvicorn ${module} --host 0.0.0.0 --port $PORT` };
const gunicorn: Server = { package: 'gunicorn', line: (module) => `gunicorn ${module} --bind 0.0.0.0:$PORT` };
const serversOf: Record<string, [Server, ...Server[]]> = {
  Flask: [gunicorn, { package: 'waitress', line: (module) => `waitress-serve --listen=0.0.0.0:$PORT ${module}` }],
};
const asynchronous: [Server, ...Server[]] = [
  uvicorn,
  { package: 'hypercorn', line: (module) => `hypercorn ${module} --bind 0.0.0.0:$PORT` },
];

/**
 * Returns how a Python project is started: by main.py or app.py, or by the web server among its packages if that module only has an app.
 * Throws `RuntimeRefused`, with the line to add, if nothing would start it.
 */
export function pythonStart(files: ProjectFiles, pyproject: Pyproject | null): Command {
  const file = programs.find((name) => files.names.has(name));
  if (file === undefined)
    throw new RuntimeRefused('The Python project does not say how it is started: give it a main.py, an app.py, or a Procfile with web.');
  const text = files.texts.get(file) ?? '';
  const [, name, framework = ''] = app.exec(text) ?? [];
  if (name === undefined || serves.test(text)) return { words: ['python', file], env: {} };
  const servers = serversOf[framework] ?? asynchronous;
  const packages = packageNames(files, pyproject);
  const server = servers.find((each) => packages.has(each.package));
  const module = `${file.replace(/\.py$/, '')}:${name}`;
  if (server === undefined)
    throw new RuntimeRefused(
      `Nothing starts the app of ${framework} in ${file}: add the line "${servers[0].package}" to the list of packages, or a Procfile with the line "web: ${servers[0].line(module)}" if its server is installed otherwise.`,
    );
  return { words: withPort(server.line(module), PORT_WORD).split(' '), env: {} };
}

/** Returns the variables that have the program listen where it is reached, unless it is told otherwise. */
export function listeningVariables([program = '']: string[]): Record<string, string> {
  return listening[program] ?? {};
}

/** Returns the names of the packages that the project lists, as far as they are read before the installation. */
function packageNames(files: ProjectFiles, pyproject: Pyproject | null): ReadonlySet<string> {
  const lines = [...(files.texts.get('requirements.txt') ?? '').split(/[\r\n]+/), ...(pyproject?.dependencies ?? [])];
  const found = new Set([...(pyproject?.poetryNames ?? []), ...(pipfileOf(files)?.names ?? [])].map((name) => name.toLowerCase()));
  for (const line of lines) {
    const [, name, extras = ''] = requirement.exec(line) ?? [];
    if (name !== undefined) found.add(name.toLowerCase());
    if (name?.toLowerCase() === 'fastapi' && /standard|all/.test(extras)) found.add('uvicorn');
  }
  return found;
}
