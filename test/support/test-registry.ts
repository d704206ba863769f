import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';
import { HeldRequests } from './held-requests.ts';
import { digestOf, RegistryContent } from './registry-content.ts';

/** The length of a blob that is sent byte by byte, and the time between two bytes, in ms. */
const ENDLESS_BYTES = 2 ** 40;
const TRICKLE_MS = 20;

export interface RegistryOptions {
  /** The user name and password that every request has to contain, separated by a colon; with null everybody can pull. */
  credential: string | null;
  /** The origin to which requests for layers are redirected. */
  redirectsTo?: string;
  /** The content of the image's only file; two registries with the same content have the same layers. */
  content?: string;
}

/**
 * A registry on loopback with one image and those that are published. It implements as much of the distribution protocol as a pull needs.
 */
export class TestRegistry {
  /** The decoded `Authorization` headers of all requests, and null for each request without one. */
  readonly seen: (string | null)[] = [];
  /** The value is true if a blob is sent byte by byte, without end. */
  trickle = false;
  /** The requests that get no response. */
  readonly held = new HeldRequests();
  private readonly content = new RegistryContent();
  private readonly server = createServer((request, response) => this.answer(request, response));

  private constructor(private readonly options: RegistryOptions) {}

  static async start(options: RegistryOptions): Promise<TestRegistry> {
    const registry = new TestRegistry(options);
    registry.server.listen(0, '127.0.0.1');
    await once(registry.server, 'listening');
    const content = options.content ?? randomUUID();
    await registry.publish('1', [{ name: 'program', type: 'file', mode: 0o755, content }], ['/program']);
    return registry;
  }

  /** The host with its port, as image references name it. */
  get host(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** A reference to the image. */
  get image(): string {
    return `${this.host}/team/agent:1`;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Adds an image with these files in its only layer, or replaces the one with this tag. Returns the image's reference. */
  async publish(tag: string, files: TarEntry[], command: string[]): Promise<string> {
    await this.content.publish(tag, files, command);
    return `${this.host}/team/agent:${tag}`;
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    if (this.held.intercept(request, response)) return;
    const { method, url = '', headers } = request;
    const { authorization } = headers;
    this.seen.push(authorization === undefined ? null : Buffer.from(authorization.replace('Basic ', ''), 'base64').toString());
    const { credential, redirectsTo } = this.options;
    if (credential !== null && this.seen.at(-1) !== credential)
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end('{"errors":[{"code":"UNAUTHORIZED"}]}');
    if (url === '/v2/') return void response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    const [, kind, name = ''] = /^\/v2\/team\/agent\/(manifests|blobs)\/([^/]+)$/.exec(url) ?? [];
    const blob = this.content.blobs.get(name);
    if (blob === undefined) return void response.writeHead(404).end('{"errors":[{"code":"NOT_FOUND"}]}');
    if (kind === 'blobs' && redirectsTo !== undefined) return void response.writeHead(307, { location: `${redirectsTo}${url}` }).end();
    const { type, content } = blob;
    if (kind === 'blobs' && this.trickle) {
      response.writeHead(200, { 'content-type': type, 'content-length': ENDLESS_BYTES });
      const timer = setInterval(() => response.write('x'), TRICKLE_MS);
      return void response.once('close', () => clearInterval(timer));
    }
    response.writeHead(200, { 'content-type': type, 'content-length': content.length, 'docker-content-digest': digestOf(content) });
    response.end(method === 'HEAD' ? undefined : content);
  }
}
