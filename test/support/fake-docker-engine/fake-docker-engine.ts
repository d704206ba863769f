import type { Duplex } from 'node:stream';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { tarOf } from '../../../src/runtime/docker/image-sources/build-context.ts';
import type { CreateBody, Labels } from './container.ts';
import { FakeContainers } from './containers.ts';
import { EngineProblem } from './engine-problem.ts';
import { EventFeed, type EngineEventFilter } from './event-feed.ts';
import { FakeImages, type ImageStoreKind, type FakeImage } from './images.ts';
import { sendLog } from './logs.ts';
import { messagesProgram, type FakeProgram } from './program.ts';
import { RealEngine } from './real-engine.ts';
import { FakeEngineTraits } from './traits.ts';
import { onVariables } from './variables.ts';

export interface FakeEngineOptions {
  /** The programs of images, by reference. */
  programs?: Record<string, FakeProgram>;
  /** The references of images whose pulls never end; a line of progress comes now and then. */
  trickling?: readonly string[];
  /** The references of images whose containers the machine's own engine runs. */
  real?: readonly string[];
  /** The store of its images; by default the graph store. */
  store?: ImageStoreKind;
  /** The program of every other image; by default, one that answers each message at once. */
  otherwise?: FakeProgram;
}

interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  query: URLSearchParams;
  /** The name that the route matched. */
  name: string;
  verb: string;
}

type Route = [method: string, path: RegExp, handle: (call: Call) => unknown];

const TRICKLE_MS = 1_000;
const HELPER = /^mooring-helper[-:]/;

/**
 * Implements the part of the Docker Engine's HTTP API (1.41) that Mooring uses, over a socket file, and keeps thousands of containers in
 * memory: each has its own address on which a program in this process responds. Chosen images can be passed to the machine's own engine. It
 * refuses what the engine refuses, and can be configured to misbehave. It has no exec.
 */
export class FakeDockerEngine {
  readonly socket = join(tmpdir(), `mooring-stand-in-${randomBytes(6).toString('hex')}.sock`);
  readonly images: FakeImages;
  readonly traits = new FakeEngineTraits();
  readonly containers: FakeContainers;
  private readonly events = new EventFeed();
  private readonly networks = new Map<string, { Id: string; Name: string; Created: string }>();
  private readonly real: RealEngine | null;
  private server: Server | null = null;

  private constructor(private readonly options: FakeEngineOptions) {
    this.images = new FakeImages(options.store ?? 'graph');
    this.containers = new FakeContainers((image) => this.programOf(image), this.events);
    this.real = options.real === undefined ? null : new RealEngine();
    for (const name of Object.keys(options.programs ?? {})) this.images.pulled(name);
  }

  static async start(options: FakeEngineOptions = {}): Promise<FakeDockerEngine> {
    const engine = new FakeDockerEngine(options);
    await engine.comeBack();
    return engine;
  }

  /** The environment variables with which a service uses this engine. */
  get environment(): Record<string, string> {
    return { DOCKER_HOST: `unix://${this.socket}`, MOORING_AGENT_EGRESS: 'all', MOORING_AGENT_ADDRESSES: 'container' };
  }

  /** Ends every connection and accepts none; the containers continue. */
  async goAway(): Promise<void> {
    const server = this.server;
    this.server = null;
    if (server === null) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  async comeBack(): Promise<void> {
    if (this.server !== null) return;
    rmSync(this.socket, { force: true });
    const server = createServer((request, response) => void this.handle(request, response));
    server.on('upgrade', (request, socket) => this.attach(request, socket));
    this.server = server;
    await new Promise<void>((resolve) => server.listen(this.socket, resolve));
  }

  async close(): Promise<void> {
    await this.goAway();
    this.containers.close();
    rmSync(this.socket, { force: true });
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://engine');
    try {
      const path = decodeURIComponent(this.traits.servedPath(url.pathname));
      for (const [method, pattern, handle] of this.routes) {
        const match = request.method === method ? pattern.exec(path) : null;
        if (match === null) continue;
        const { name = '', verb = '' } = match.groups ?? {};
        await handle({ request, response, query: url.searchParams, name, verb });
        return;
      }
      throw new EngineProblem(501, `the stand-in has no ${request.method} ${path}`);
    } catch (error) {
      const status = error instanceof EngineProblem ? error.status : 500;
      if (response.headersSent) response.destroy();
      else if (status === 304) response.writeHead(304).end();
      else send(response, { message: (error as Error).message }, status);
    }
  }

  /** Reads the variables of a container from its standard input. Connections for other containers go to the machine's own engine. */
  private attach(request: IncomingMessage, socket: Duplex): void {
    const [, name = ''] = /\/containers\/([^/]+)\/attach\?/.exec(request.url ?? '') ?? [];
    if (!this.containers.has(name)) {
      if (this.real !== null) return this.real.tunnel(request, socket);
      const message = JSON.stringify({ message: `No such container: ${name}` });
      socket.end(`HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: ${message.length}\r\n\r\n${message}`);
      return;
    }
    const container = this.containers.get(name);
    socket.write('HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
    onVariables(socket, (variables) => container.running && void this.containers.begin(container, variables));
  }

  private readonly routes: Route[] = [
    ['GET', /^\/_ping$/, ({ response }) => response.end('OK')],
    ['GET', /^\/version$/, ({ response }) => send(response, this.traits.version)],
    ['GET', /^\/info$/, ({ response }) => send(response, this.traits.infoWith(this.containers.count))],
    ['GET', /^\/events$/, (call) => this.follow(call)],
    ['POST', /^\/containers\/create$/, (call) => this.create(call)],
    ['GET', /^\/containers\/json$/, (call) => this.list(call)],
    ['GET', /^\/containers\/(?<name>[^/]+)\/json$/, (call) => this.onContainer(call, (c) => send(call.response, c.inspect()))],
    ['GET', /^\/containers\/(?<name>[^/]+)\/logs$/, (call) => this.onContainer(call, (c) => sendLog(c, call.query, call.response))],
    ['GET', /^\/containers\/(?<name>[^/]+)\/archive$/, (call) => this.archive(call)],
    ['HEAD', /^\/containers\/(?<name>[^/]+)\/archive$/, (call) => this.onContainer(call, () => call.response.writeHead(404).end())],
    ['GET', /^\/containers\/(?<name>[^/]+)\/changes$/, (call) => this.onContainer(call, () => send(call.response, null))],
    ['POST', /^\/containers\/(?<name>[^/]+)\/(?<verb>start|stop|kill|pause|unpause)$/, (call) => this.act(call)],
    ['DELETE', /^\/containers\/(?<name>[^/]+)$/, (call) => this.remove(call)],
    ['POST', /^\/images\/create$/, (call) => this.bring(call)],
    ['POST', /^\/build$/, (call) => this.build(call)],
    [
      'GET',
      /^\/images\/json$/,
      ({ response }) =>
        send(
          response,
          [...this.images.all()].map((image) => this.images.listed(image)),
        ),
    ],
    ['DELETE', /^\/images\/(?<name>.+)$/, (call) => this.onImage(call, () => this.untag(call))],
    ['GET', /^\/images\/(?<name>.+)\/json$/, (call) => this.onImage(call, (image) => send(call.response, this.images.inspect(image)))],
    ['POST', /^\/images\/(?<name>.+)\/tag$/, (call) => this.onImage(call, (image) => this.tag(call, image))],
    ['POST', /^\/volumes\/create$/, (call) => this.makeVolume(call)],
    ['GET', /^\/volumes$/, (call) => this.listVolumes(call)],
    ['GET', /^\/volumes\/(?<name>[^/]+)$/, (call) => this.onVolume(call, () => send(call.response, this.volume(call.name)))],
    ['DELETE', /^\/volumes\/(?<name>[^/]+)$/, (call) => this.onVolume(call, () => this.removeVolume(call))],
    ['POST', /^\/networks\/create$/, (call) => this.makeNetwork(call)],
    ['GET', /^\/networks$/, (call) => this.listNetworks(call)],
    ['GET', /^\/networks\/(?<name>[^/]+)$/, (call) => this.inspectNetwork(call)],
    ['DELETE', /^\/networks\/(?<name>[^/]+)$/, (call) => this.removeNetwork(call)],
  ];

  private follow({ request, response, query }: Call): void {
    this.events.listen(response, JSON.parse(query.get('filters') ?? '{}') as EngineEventFilter);
    this.real?.follow(request.url ?? '', response);
  }

  private async create({ request, response, query }: Call): Promise<void> {
    const text = await bodyOf(request);
    const body = JSON.parse(text.toString('utf8')) as CreateBody;
    if (this.real !== null && this.images.find(body.Image) === undefined) {
      // The volume was created here, before it was known which engine gets the container.
      for (const { Source } of body.HostConfig?.Mounts ?? []) await this.moveVolume(Source);
      return this.real.pass(request, response, text);
    }
    const image = this.image(body.Image);
    const name = query.get('name') ?? `unnamed_${randomBytes(6).toString('hex')}`;
    const container = this.containers.create(name, { ...body, Labels: { ...image.labels, ...body.Labels } }, image.id);
    send(response, { Id: container.id, Warnings: [] }, 201);
  }

  private async list({ request, response, query }: Call): Promise<void> {
    const { label = [], ancestor } = JSON.parse(query.get('filters') ?? '{}') as { label?: string[]; ancestor?: string[] };
    const own = this.containers
      .bearing(label, ['1', 'true'].includes(query.get('all') ?? ''))
      .filter(({ parts }) => ancestor === undefined || ancestor.some((name) => this.images.find(name)?.id === parts.imageId));
    const others = this.real === null ? [] : ((await this.real.ask('GET', request.url ?? '')).body as object[]);
    send(response, [...own.map((container) => container.listed()), ...others]);
  }

  /** Handles a call for a container; calls for unknown ones go to the machine's own engine. */
  private onContainer({ name, request, response }: Call, work: (container: ReturnType<FakeContainers['get']>) => unknown): unknown {
    if (this.real !== null && !this.containers.has(name)) return this.real.pass(request, response);
    return work(this.containers.get(name));
  }

  private async act(call: Call): Promise<void> {
    await this.onContainer(call, async (container) => {
      const { verb, query, response } = call;
      if (verb === 'start') await this.containers.start(container);
      else if (verb === 'stop') await this.containers.stop(container, Number(query.get('t') ?? 10));
      else if (verb === 'kill') await this.containers.stop(container, 0);
      else if (verb === 'pause') this.containers.pause(container, this.traits);
      else this.containers.unpause(container);
      response.writeHead(204).end();
    });
  }

  private remove(call: Call): unknown {
    return this.onContainer(call, (container) => {
      this.containers.remove(container, ['1', 'true'].includes(call.query.get('force') ?? ''));
      call.response.writeHead(204).end();
    });
  }

  /** Returns a file of the image or of the agent's volume; programs here create no others. */
  private archive(call: Call): unknown {
    return this.onContainer(call, (container) => {
      const path = (call.query.get('path') ?? '').replace(/^\//, '');
      const content = container.fileOnVolume(`/${path}`) ?? this.images.find(container.parts.imageId)?.files.get(path);
      if (content === undefined) throw new EngineProblem(404, `Could not find the file /${path} in container ${container.id}`);
      call.response.writeHead(200, { 'content-type': 'application/x-tar' });
      tarOf([{ name: path.split('/').at(-1) ?? path, type: 'file', mode: 0o755, content }]).pipe(call.response);
    });
  }

  private async bring({ request, response, query }: Call): Promise<void> {
    const name = query.get('fromImage');
    const repo = query.get('repo');
    if ((name !== null && this.isReal(name)) || (repo !== null && this.isReal(repo))) return this.real?.pass(request, response);
    if (name !== null) return this.pull(name, response);
    const image = await this.images.fromTar(request, `${repo}:${query.get('tag') ?? 'latest'}`, query.getAll('changes'));
    send(response, { status: image.id });
  }

  private pull(name: string, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write(`${JSON.stringify({ status: `Pulling from ${name}` })}\n`);
    if (this.options.trickling?.includes(name) !== true) return void response.end(`${JSON.stringify(this.download(name))}\n`);
    let current = 0;
    const timer = setInterval(() => {
      current += 1;
      response.write(`${JSON.stringify({ id: 'layer', status: 'Downloading', progressDetail: { current, total: 1_000_000 } })}\n`);
    }, TRICKLE_MS);
    response.on('close', () => clearInterval(timer));
  }

  private download(name: string): object {
    try {
      this.images.pulled(name);
      return { status: `Status: Downloaded newer image for ${name}` };
    } catch (error) {
      return { error: (error as Error).message };
    }
  }

  private async build({ request, response, query }: Call): Promise<void> {
    const image = await this.images.fromTar(request, query.get('t'), []);
    response.end(`${JSON.stringify({ stream: 'Built by the stand-in\n' })}\n${JSON.stringify({ aux: { ID: image.id } })}\n`);
  }

  private onImage({ name, request, response }: Call, work: (image: FakeImage) => unknown): unknown {
    if (this.real !== null && this.images.find(name) === undefined) return this.real.pass(request, response);
    return work(this.image(name));
  }

  private image(name: string): FakeImage {
    const image = this.images.find(name);
    if (image === undefined) throw new EngineProblem(404, `No such image: ${name}`);
    return image;
  }

  private tag({ query, response }: Call, image: FakeImage): void {
    this.images.tag(image, `${query.get('repo')}:${query.get('tag') ?? 'latest'}`);
    response.writeHead(201).end();
  }

  private untag({ name, query, response }: Call): void {
    const isUsed = ({ id }: FakeImage) => this.containers.bearing([], true).some(({ parts }) => parts.imageId === id);
    this.images.remove(name, ['1', 'true'].includes(query.get('force') ?? ''), isUsed);
    send(response, [{ Untagged: name }]);
  }

  private async makeVolume({ request, response }: Call): Promise<void> {
    const text = await bodyOf(request);
    const { Name, Labels = {} } = JSON.parse(text.toString('utf8')) as { Name: string; Labels?: Labels };
    if (this.real !== null && HELPER.test(Name)) return this.real.pass(request, response, text);
    this.containers.volume(Name, Labels);
    send(response, this.volume(Name), 201);
  }

  private onVolume({ name, request, response }: Call, work: () => unknown): unknown {
    if (this.real !== null && !this.containers.volumes.has(name)) return this.real.pass(request, response);
    return work();
  }

  private volume(name: string): object {
    const volume = this.containers.volumes.get(name);
    if (volume === undefined) throw new EngineProblem(404, `get ${name}: no such volume`);
    return { Name: name, Driver: 'local', Labels: volume.labels, CreatedAt: volume.createdAt, Mountpoint: '', Scope: 'local' };
  }

  private async moveVolume(name: string): Promise<void> {
    const volume = this.containers.volumes.get(name);
    if (volume === undefined) return;
    await this.real?.ask('POST', '/volumes/create', { Name: name, Labels: volume.labels });
    this.containers.volumes.delete(name);
  }

  private async listVolumes({ request, response, query }: Call): Promise<void> {
    const { label = [] } = JSON.parse(query.get('filters') ?? '{}') as { label?: string[] };
    const others =
      this.real === null ? [] : (((await this.real.ask('GET', request.url ?? '')).body as { Volumes?: object[] }).Volumes ?? []);
    const bears = (labels: Labels) =>
      label.every((wanted) => {
        const [key = '', value] = wanted.split('=');
        return value === undefined ? key in labels : labels[key] === value;
      });
    const own = [...this.containers.volumes].filter(([, { labels }]) => bears(labels)).map(([name]) => this.volume(name));
    send(response, { Volumes: [...own, ...others], Warnings: null });
  }

  private removeVolume({ name, response }: Call): void {
    this.containers.removeVolume(name);
    response.writeHead(204).end();
  }

  private async makeNetwork({ request, response }: Call): Promise<void> {
    if (this.real !== null) return this.real.pass(request, response);
    const body = JSON.parse((await bodyOf(request)).toString('utf8')) as { Name: string };
    const Id = randomBytes(32).toString('hex');
    this.networks.set(Id, { Id, Created: new Date().toISOString(), ...body });
    send(response, { Id, Warning: '' }, 201);
  }

  private listNetworks({ request, response }: Call): void {
    if (this.real !== null) return this.real.pass(request, response);
    send(response, [...this.networks.values()]);
  }

  private inspectNetwork({ name, request, response }: Call): void {
    if (this.real !== null) return this.real.pass(request, response);
    send(response, this.network(name));
  }

  private removeNetwork({ name, request, response }: Call): void {
    if (this.real !== null) return this.real.pass(request, response);
    this.networks.delete(this.network(name).Id);
    response.writeHead(204).end();
  }

  private network(name: string): { Id: string; Name: string } {
    const found = this.networks.get(name) ?? [...this.networks.values()].find(({ Name }) => Name === name);
    if (found === undefined) throw new EngineProblem(404, `network ${name} not found`);
    return found;
  }

  private programOf(image: string): FakeProgram {
    const names = [...(this.images.find(image)?.names ?? [])];
    const named = names.map((name) => this.options.programs?.[name]).find((program) => program !== undefined);
    return named ?? this.options.otherwise ?? messagesProgram();
  }

  /**
   * Returns true for images of the machine's own engine. The helper program goes there as soon as a real image is used, because real
   * containers mount it.
   */
  private isReal(image: string): boolean {
    return this.real !== null && (HELPER.test(image) || image === 'mooring-helper' || this.options.real?.includes(image) === true);
  }
}

function send(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
