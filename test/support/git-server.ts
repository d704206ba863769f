import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { HeldRequests } from './held-requests.ts';
import { LfsStore } from './lfs-store.ts';

const environment = {
  PATH: process.env.PATH ?? '',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'A Tester',
  GIT_AUTHOR_EMAIL: 'tester@example.com',
  GIT_COMMITTER_NAME: 'A Tester',
  GIT_COMMITTER_EMAIL: 'tester@example.com',
};

/** An entry of a commit: the content of a file, the target of a link, or the commit of a submodule. */
export type GitEntry = string | Buffer | { link: string } | { executable: string | Buffer } | { submodule: string };

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on loopback that serves repositories over Git's smart protocol, by `git http-backend`. */
export class GitServer {
  /** The decoded `Authorization` headers of all requests, and null for each request without one. */
  readonly seen: (string | null)[] = [];
  /** The time of commits; null stands for now. */
  time: string | null = null;
  /** If set, responds instead of Git. */
  answer: Answer | null = null;
  /** The requests that get no response. */
  readonly held = new HeldRequests();
  /** The contents of files in Git LFS, for all repositories. */
  readonly lfs = new LfsStore();
  private readonly server = createServer((request, response) => this.serve(request, response));

  private constructor(
    private readonly folder: string,
    private readonly credential: string | null,
  ) {}

  /** The credential is a user name and a password, separated by a colon; with null everybody can fetch. */
  static async start(credential: string | null = null): Promise<GitServer> {
    const server = new GitServer(await mkdtemp(join(tmpdir(), 'mooring-git-server-')), credential);
    server.server.listen(0, '127.0.0.1');
    await once(server.server, 'listening');
    return server;
  }

  get host(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  url(name: string): string {
    return `http://${this.host}/${name}.git`;
  }

  path(name: string): string {
    return join(this.folder, `${name}.git`);
  }

  /** Commits exactly these files to the branch, and returns the commit's hash. A missing repository is created. */
  commit(name: string, files: Record<string, GitEntry>, branch = 'main'): string {
    this.git(name, ['init', '--bare', '--quiet', '--initial-branch=main', this.path(name)]);
    return this.commitTree(name, this.tree(name, files), branch);
  }

  commitTree(name: string, tree: string, branch = 'main'): string {
    const commit = this.git(name, ['commit-tree', tree, '-m', 'A commit']);
    this.git(name, ['update-ref', `refs/heads/${branch}`, commit]);
    return commit;
  }

  /** Names a commit by a tag, which is an object of its own if it has a message. */
  tag(name: string, tag: string, commit: string, message?: string): void {
    this.git(name, ['tag', ...(message === undefined ? [] : ['-a', '-m', message]), tag, commit]);
  }

  /** Makes a branch the repository's default. */
  makeDefault(name: string, branch: string): void {
    this.git(name, ['symbolic-ref', 'HEAD', `refs/heads/${branch}`]);
  }

  /** Writes a tree, whose files may be in folders, and returns its hash. */
  tree(name: string, files: Record<string, GitEntry>): string {
    const here = new Map<string, string>();
    const below = new Map<string, Record<string, GitEntry>>();
    for (const [path, entry] of Object.entries(files)) {
      const [first = '', ...rest] = path.split('/');
      if (rest.length > 0) below.set(first, { ...below.get(first), [rest.join('/')]: entry });
      else here.set(first, this.line(name, first, entry));
    }
    for (const [folder, entries] of below) here.set(folder, `040000 tree ${this.tree(name, entries)}\t${folder}`);
    return this.treeOf(name, [...here.values()]);
  }

  /** Writes a tree of lines as `git ls-tree` prints them. */
  treeOf(name: string, lines: string[]): string {
    return this.git(name, ['mktree', '-z', '--missing'], lines.map((line) => `${line}\0`).join(''));
  }

  /** Writes a tree of entries as a hostile server may, in this order and unchecked: a name may hold a slash, or occur twice. */
  rawTree(name: string, entries: { mode: string; file: string; hash: string }[]): string {
    const parts = entries.flatMap(({ mode, file, hash }) => [Buffer.from(`${mode} ${file}\0`), Buffer.from(hash, 'hex')]);
    return this.git(name, ['hash-object', '-w', '-t', 'tree', '--literally', '--stdin'], Buffer.concat(parts));
  }

  /** Writes a file's content, and returns its hash. */
  blob(name: string, content: string | Buffer): string {
    return this.git(name, ['hash-object', '-w', '--stdin'], content);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  private line(name: string, file: string, entry: GitEntry): string {
    if (typeof entry === 'string' || Buffer.isBuffer(entry)) return `100644 blob ${this.blob(name, entry)}\t${file}`;
    if ('submodule' in entry) return `160000 commit ${entry.submodule}\t${file}`;
    if ('link' in entry) return `120000 blob ${this.blob(name, entry.link)}\t${file}`;
    return `100755 blob ${this.blob(name, entry.executable)}\t${file}`;
  }

  private git(name: string, args: string[], input: string | Buffer = ''): string {
    const cwd = args[0] === 'init' ? this.folder : this.path(name);
    const times = this.time === null ? {} : { GIT_COMMITTER_DATE: this.time, GIT_AUTHOR_DATE: this.time };
    return execFileSync('git', args, { cwd, env: { ...environment, ...times }, input, stdio: ['pipe', 'pipe', 'pipe'] })
      .toString()
      .trim();
  }

  private serve(request: IncomingMessage, response: ServerResponse): void {
    const { authorization } = request.headers;
    const credential = authorization === undefined ? null : Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString();
    this.seen.push(credential);
    if (this.answer !== null) return this.answer(request, response);
    if (this.held.intercept(request, response)) return;
    if (this.credential !== null && credential !== this.credential) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      return;
    }
    if (!this.lfs.respond(request, response)) this.runBackend(request, response);
  }

  private runBackend(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', 'http://localhost');
    const backend = spawn('git', ['http-backend'], {
      env: {
        ...environment,
        GIT_PROJECT_ROOT: this.folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: decodeURIComponent(url.pathname),
        QUERY_STRING: url.search.slice(1),
        REQUEST_METHOD: request.method ?? '',
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    backend.stdin.on('error', () => undefined);
    request.pipe(backend.stdin);
    let head: Buffer | null = Buffer.alloc(0);
    backend.stdout.on('data', (chunk: Buffer) => {
      if (head === null) return void response.write(chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end === -1) return;
      const lines = head.subarray(0, end).toString().split('\r\n');
      const headers = Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]));
      response.writeHead(Number(headers.Status?.slice(0, 3) ?? 200), headers);
      response.write(head.subarray(end + 4));
      head = null;
    });
    backend.stdout.on('end', () => response.end());
    response.on('close', () => backend.kill());
  }
}
