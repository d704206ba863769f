import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

const MEDIA_TYPE = 'application/vnd.git-lfs+json';

interface Batch {
  operation: string;
  objects: { oid: string; size: number }[];
}

/** The objects of a server of Git LFS: it is asked where they are (`objects/batch`), and they are requested there, with a header of its own. */
export class LfsStore {
  readonly objects = new Map<string, Buffer>();
  /** The paths that were requested. */
  readonly requests: string[] = [];
  /** The address at which objects are to be requested; by default this server. */
  hrefOf: (oid: string, base: string) => string = (oid, base) => `${base}/lfs-objects/${oid}`;

  /** Stores the content. Returns the text of the file that stands for it in a repository. */
  pointerTo(content: string | Buffer): string {
    const bytes = Buffer.from(content);
    const oid = createHash('sha256').update(bytes).digest('hex');
    this.objects.set(oid, bytes);
    return `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${bytes.length}\n`;
  }

  /** Responds to requests for Git LFS. Returns false for others. */
  respond(request: IncomingMessage, response: ServerResponse): boolean {
    const { pathname } = new URL(request.url ?? '', 'http://localhost');
    if (this.objects.size === 0 || !/\/info\/lfs\/|^\/lfs-objects\//.test(pathname)) return false;
    this.requests.push(pathname);
    const oid = /^\/lfs-objects\/([0-9a-f]{64})$/.exec(pathname)?.[1];
    if (oid === undefined) void this.offer(request, response);
    else if (request.headers['x-ticket'] !== oid.slice(0, 8)) response.writeHead(403).end();
    else response.end(this.objects.get(oid));
    return true;
  }

  private async offer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { operation, objects } = JSON.parse(Buffer.concat(chunks).toString()) as Batch;
    if (operation !== 'download' || request.headers['content-type'] !== MEDIA_TYPE) return void response.writeHead(422).end();
    const base = `http://${request.headers.host ?? ''}`;
    const offers = objects.map(({ oid, size }) =>
      this.objects.has(oid)
        ? { oid, size, actions: { download: { href: this.hrefOf(oid, base), header: { 'x-ticket': oid.slice(0, 8) } } } }
        : { oid, size, error: { code: 404, message: 'no such object' } },
    );
    response.writeHead(200, { 'content-type': MEDIA_TYPE }).end(JSON.stringify({ transfer: 'basic', objects: offers }));
  }
}
