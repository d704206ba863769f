import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const templates = resolve(import.meta.dirname, '../../templates');

interface Answer {
  status: number;
  headers: Headers;
  text: string;
  json: unknown;
}

/** The program of a template that serves a project, as a path below the folder of templates, and the interpreter that runs it. */
export interface TemplateProgram {
  interpreter: string;
  file: 'langgraph/project/serve.py' | 'langgraph/project/serve.mjs' | 'crewai/project/serve.py';
}

/** A project of a framework, served by the program of the framework's template in a process of its own. */
export class TemplateServer {
  private process: ChildProcess | null = null;
  private port = 0;
  readonly output: string[] = [];

  private constructor(
    private readonly program: TemplateProgram,
    private readonly folder: string,
    private readonly environment: Record<string, string>,
  ) {}

  /** Starts the server of a project with these files. Throws with its output if it ends before it is ready. */
  static async start(
    program: TemplateProgram,
    files: Record<string, string>,
    environment: Record<string, string> = {},
  ): Promise<TemplateServer> {
    const folder = await mkdtemp(join(tmpdir(), 'mooring-project-'));
    await mkdir(join(folder, 'volume'));
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, 'project', name)), { recursive: true });
      await writeFile(join(folder, 'project', name), text);
    }
    const server = new TemplateServer(program, folder, environment);
    await server.start().catch(async (error: unknown) => {
      await server.dispose();
      throw error;
    });
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const own = { MOORING_VOLUME: join(this.folder, 'volume'), HOST: '127.0.0.1', PORT: '0', PYTHONUNBUFFERED: '1' };
    const child = spawn(this.program.interpreter, [join(templates, this.program.file)], {
      cwd: join(this.folder, 'project'),
      env: { ...process.env, ...this.environment, ...own },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.process = child;
    createInterface(child.stderr).on('line', (line) => this.output.push(line));
    this.port = await new Promise<number>((found, reject) => {
      child.once('close', () => reject(new Error(this.output.join('\n'))));
      createInterface(child.stdout).on('line', (line) => {
        this.output.push(line);
        const port = / ready", ?"port": ?(\d+)/.exec(line)?.[1];
        if (port !== undefined) found(Number(port));
      });
    });
  }

  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const given =
      body === undefined ? { headers } : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } };
    const response = await fetch(`${this.url}${path}`, { method, ...given });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true && text !== '';
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
  }

  /** Returns a file that the graphs wrote to the volume; empty if there is none. */
  async file(name: string): Promise<string> {
    return readFile(join(this.folder, 'volume', name), 'utf8').catch(() => '');
  }

  async writeFile(name: string, text: string): Promise<void> {
    await writeFile(join(this.folder, 'volume', name), text);
  }

  /** Ends the process with the signal, and waits for its end. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.process;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  async dispose(): Promise<void> {
    await this.end('SIGKILL');
    await rm(this.folder, { recursive: true, force: true });
  }
}
