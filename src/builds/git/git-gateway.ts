import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ClientRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { PrivateAddress } from '../../kernel/network/public-addresses.ts';
import type { FetchBudget } from './fetch-budget.ts';
import type { RepositoryUrl } from './repository-url.ts';
import { credentialHeaders, sendRequest, type Reach } from './source-connection.ts';

const ADVERTISEMENT = 'application/x-git-upload-pack-advertisement';
/** The headers of Git's requests that are passed on. Git is not offered compression, so that no response grows after it was counted. */
const forwardedHeaders = ['accept', 'content-type', 'content-encoding', 'content-length', 'git-protocol', 'user-agent'] as const;
const SHOWN_ADDRESS_MAX = 300;

/** The least number of bytes that must come within a time. */
export interface LeastSpeed {
  bytes: number;
  withinMs: number;
}

export interface GatewayOptions extends Reach {
  repository: RepositoryUrl;
  credential: { username: string; password: string } | null;
  budget: FetchBudget;
  leastSpeed: LeastSpeed;
}

/**
 * Passes the requests of one fetch on to one repository. Git speaks only with this server, on the loopback interface and under a secret
 * path. So it is this process that checks the address at the time of the connection, holds the credential, counts the bytes and follows no
 * redirect, and Git loses its connection when this process dies.
 */
export class GitGateway {
  /** The reason for which the fetch failed, as a sentence; null if nothing was refused here. */
  failure: string | null = null;
  private readonly secret = randomBytes(24).toString('base64url');
  private readonly server: Server;
  private readonly closing = new AbortController();

  private constructor(private readonly options: GatewayOptions) {
    this.server = createServer((request, response) => this.handleRequest(request, response));
  }

  static async open(options: GatewayOptions): Promise<GitGateway> {
    const gateway = new GitGateway(options);
    gateway.server.listen(0, '127.0.0.1');
    await once(gateway.server, 'listening');
    return gateway;
  }

  /** The address of the repository for Git. */
  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/${this.secret}`;
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    this.closing.abort();
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private handleRequest(request: IncomingMessage, response: ServerResponse): void {
    const path = this.pathOf(request);
    if (path === null) {
      response.writeHead(404).end();
      return;
    }
    this.watchSpeed(response);
    const { repository, credential } = this.options;
    const headers: Record<string, string> = {};
    for (const name of forwardedHeaders) {
      const value = request.headers[name];
      if (typeof value === 'string') headers[name] = value;
    }
    Object.assign(headers, credentialHeaders(credential));
    let call: ClientRequest;
    try {
      const { signal } = this.closing;
      call = sendRequest(new URL(repository.href + path), this.options, { method: request.method, headers, signal });
    } catch (error) {
      return this.refuse(response, error as Error);
    }
    call.once('response', (answer) => this.forwardResponse(answer, response, path));
    call.once('error', (error) => this.refuse(response, error));
    // A server that switches to another protocol is left without an error.
    call.once('close', () => response.headersSent || this.refuse(response, new Error('the connection closed before an answer')));
    request.pipe(call);
  }

  /** Ends the fetch if the server sends too little until the response is complete. What Git does with it afterwards may take longer. */
  private watchSpeed(response: ServerResponse): void {
    const { budget, leastSpeed } = this.options;
    const { bytes, withinMs } = leastSpeed;
    let before = budget.receivedBytes;
    const watch = setInterval(() => {
      if (budget.receivedBytes - before < bytes)
        this.fail(`The server of the repository sent less than ${bytes} bytes in ${withinMs / 1_000} s.`);
      before = budget.receivedBytes;
    }, withinMs);
    response.once('close', () => clearInterval(watch));
  }

  /** Returns the path behind the repository's address; null if it is none of the two that a fetch needs. */
  private pathOf({ method, url = '' }: IncomingMessage): string | null {
    const path = url.startsWith(`/${this.secret}/`) ? url.slice(this.secret.length + 1) : '';
    const known = { GET: '/info/refs?service=git-upload-pack', POST: '/git-upload-pack' } as Record<string, string>;
    return path !== '' && known[method ?? ''] === path ? path : null;
  }

  private forwardResponse(answer: IncomingMessage, response: ServerResponse, path: string): void {
    const refusal = refusalOf(answer, this.options, path);
    if (refusal !== null) {
      answer.destroy();
      return this.refuse(response, null, refusal);
    }
    const { 'content-type': type = '' } = answer.headers;
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache' });
    answer.on('data', (chunk: Buffer) => {
      const excess = this.options.budget.receive(chunk.length);
      if (excess !== null) this.fail(excess);
    });
    answer.once('error', () => {
      this.failure ??= 'The server of the repository broke the connection.';
      response.destroy();
    });
    answer.pipe(response);
  }

  private refuse(response: ServerResponse, error: Error | null, message = failureOf(error)): void {
    if (!this.closing.signal.aborted) this.failure ??= message;
    if (!response.headersSent) response.writeHead(502).end();
    else response.destroy();
  }

  private fail(message: string): void {
    this.failure ??= message;
    this.closing.abort();
    this.server.closeAllConnections();
  }
}

/** Returns the sentence that refuses the server's answer, or null if it is one to the request. */
function refusalOf({ statusCode = 0, headers }: IncomingMessage, { repository, credential }: GatewayOptions, path: string): string | null {
  if (statusCode >= 300 && statusCode < 400) return redirectRefusal(headers.location, repository);
  if (statusCode === 401 || statusCode === 403 || statusCode === 404)
    return credential === null
      ? 'The repository was not found, or needs a credential: store one for its host with PUT /api/v1/source-credentials/git/{host}.'
      : 'The repository was not found with the credential that the account has for its host.';
  if (statusCode !== 200) return `The server of the repository answered with status ${statusCode}.`;
  if (headers['content-encoding'] !== undefined) return 'The server of the repository sent a compressed response, for which nobody asked.';
  if (path !== '/git-upload-pack' && headers['content-type'] !== ADVERTISEMENT)
    return "There is no Git repository at this address that speaks Git's smart protocol.";
  return null;
}

function redirectRefusal(location: string | undefined, { href }: RepositoryUrl): string {
  const sentence = 'The repository is redirected, and redirects are not followed';
  if (location === undefined || !URL.canParse(location, `${href}/`)) return `${sentence}.`;
  const { protocol, host, pathname } = new URL(location, `${href}/`);
  const path = pathname.replace(/\/info\/refs$/, '');
  return `${sentence}. The new address is ${`${protocol}//${host}${path}`.slice(0, SHOWN_ADDRESS_MAX)}.`;
}

function failureOf(error: NodeJS.ErrnoException | null): string {
  if (error instanceof PrivateAddress)
    return 'The server of the repository has a private address, which the operator has not allowed (MOORING_ALLOW_PRIVATE_SOURCES).';
  const code = error?.code;
  return `The server of the repository could not be reached${code === undefined ? '' : ` (${code})`}.`;
}
