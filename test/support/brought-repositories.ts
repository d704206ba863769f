import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

import { AgentFixture } from './agent-fixture.ts';
import { type GitEntry, GitServer } from './git-server.ts';
import type { TestResponse, TestServer } from './http-server.ts';
import { until } from './until.ts';

const folder = join(import.meta.dirname, 'repositories');
/** The time that the installation of large packages takes on a busy machine. */
const SETTLED_MS = 580_000;

/** Returns the files of a repository as people bring it, from test/support/repositories. `change` gets the text of each. */
export function broughtRepository(name: string, change = (text: string) => text): Record<string, GitEntry> {
  const files = readdirSync(join(folder, name), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      const text = change(readFileSync(path, 'utf8'));
      const isExecutable = (statSync(path).mode & 0o100) !== 0;
      return [relative(join(folder, name), path).replaceAll(sep, '/'), isExecutable ? { executable: text } : text];
    }),
  );
}

/** The names of all repositories as people bring them. */
export const broughtRepositories = readdirSync(folder);

/** The outcome of a deployment, and of one chat if it succeeded. */
export interface Outcome {
  agentId: string;
  status: string;
  /** The message of the deployment's record. */
  message: string;
  buildLog: string;
  /** The reply to the message "hello", or the detail of the problem that the chat had. */
  chat: string;
  /** The agent's log, in the order of its entries. */
  output: string;
}

/** Deploys repositories of a Git server on loopback, as the account `acme` of the server. */
export class BroughtAgents {
  private constructor(
    private readonly server: TestServer,
    private readonly git: GitServer,
  ) {}

  static async open(server: TestServer, git: GitServer): Promise<BroughtAgents> {
    await new AgentFixture(server).account('acme', 100);
    return new BroughtAgents(server, git);
  }

  /** Deploys the files as a repository, and sends the agent one message. The agent is deleted afterwards. */
  async outcomeOf(name: string, files: Record<string, GitEntry>, branch = 'main'): Promise<Outcome> {
    this.git.commit(name, files, branch);
    this.git.makeDefault(name, branch);
    const { json } = await this.call('POST', '/api/v1/provision', { name, repo_url: this.git.url(name) });
    const outcome = await this.settled(json.agent_id as string);
    await this.call('DELETE', `/api/v1/agents/${outcome.agentId}`);
    return outcome;
  }

  call(method: string, path: string, json?: unknown, headers: Record<string, string> = {}): Promise<TestResponse> {
    return this.server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100', ...headers } });
  }

  /** Waits until the latest deployment of the agent has ended, and chats with an agent that is active. */
  async settled(agentId: string): Promise<Outcome> {
    const path = `/api/v1/agents/${agentId}`;
    const ended = async () => {
      const [latest] = (await this.call('GET', `${path}/deployments`)).json;
      return latest?.completed_at ? latest : undefined;
    };
    const record = await until('the deployment ends', ended, { timeoutMs: SETTLED_MS, everyMs: 200 });
    const { status } = (await this.call('GET', path)).json;
    const chat = status === 'active' ? (await this.call('POST', `/api/agents/${agentId}/chat`, { message: 'hello' })).json : {};
    const entries = (await this.call('GET', `${path}/logs?limit=200`)).json as { message: string }[];
    return {
      agentId,
      status,
      message: record.message ?? '',
      buildLog: record.build_log,
      chat: chat.response ?? chat.detail ?? '',
      output: entries.map(({ message }) => message).join('\n'),
    };
  }
}

/**
 * Runs the tasks two at a time: a task begins when the result of the one before it is awaited. So a test that runs alone begins one other
 * task at most.
 */
export class TwoAtATime<Result> {
  private readonly begun = new Map<number, Promise<Result>>();

  constructor(private readonly tasks: readonly (() => Promise<Result>)[]) {}

  resultOf(at: number): Promise<Result> {
    const result = this.begin(at);
    if (at + 1 < this.tasks.length) void this.begin(at + 1);
    return result;
  }

  /** Waits until all tasks that have begun are over. */
  async close(): Promise<void> {
    await Promise.allSettled(this.begun.values());
  }

  private begin(at: number): Promise<Result> {
    const known = this.begun.get(at);
    if (known !== undefined) return known;
    const begun = (this.tasks[at] as () => Promise<Result>)();
    begun.catch(() => undefined);
    this.begun.set(at, begun);
    return begun;
  }
}
