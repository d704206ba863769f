import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import { FakeContainer, type CreateBody, type Labels } from './container.ts';
import { EngineProblem } from './engine-problem.ts';
import type { EventFeed } from './event-feed.ts';
import { Listeners } from './listeners.ts';
import type { FakeProgram } from './program.ts';
import type { FakeEngineTraits } from './traits.ts';

const AGENT_LABEL = 'mooring.agent';

/** The description of a container to seed, as if a service had made it earlier. */
export interface SeededContainer {
  name: string;
  body: CreateBody;
  imageId: string;
  status: 'running' | 'paused' | 'exited';
  exitCode?: number;
}

/** The containers and volumes of a stand-in, with the engine's rules for them. */
export class FakeContainers {
  readonly volumes = new Map<string, { labels: Labels; createdAt: string; files: Map<string, Buffer> }>();
  private readonly listeners = new Listeners((address, request, response) => void this.answerCall(address, request, response));
  private readonly byId = new Map<string, FakeContainer>();
  private readonly byName = new Map<string, FakeContainer>();
  private readonly byAddress = new Map<string, FakeContainer>();
  /** The containers by agent, which is the label that the service queries most. */
  private readonly byAgent = new Map<string, Set<FakeContainer>>();

  constructor(
    private readonly programOf: (image: string) => FakeProgram,
    private readonly events: EventFeed,
  ) {}

  get count(): number {
    return this.byId.size;
  }

  /** Returns the container. Throws the engine's 404. */
  get(nameOrId: string): FakeContainer {
    const found = this.byId.get(nameOrId) ?? this.byName.get(nameOrId);
    if (found === undefined) throw new EngineProblem(404, `No such container: ${nameOrId}`);
    return found;
  }

  has(nameOrId: string): boolean {
    return this.byId.has(nameOrId) || this.byName.has(nameOrId);
  }

  /** Lists the containers that have all the labels, each `name` or `name=value`. */
  bearing(labels: readonly string[], all: boolean): FakeContainer[] {
    const agent = labels.find((label) => label.startsWith(`${AGENT_LABEL}=`))?.slice(AGENT_LABEL.length + 1);
    const candidates = agent === undefined ? this.byId.values() : (this.byAgent.get(agent) ?? []);
    return [...candidates].filter((container) => (all || container.running) && labels.every((label) => bears(container.labels, label)));
  }

  create(name: string, body: CreateBody, imageId: string): FakeContainer {
    const standing = this.byName.get(name);
    if (standing !== undefined)
      throw new EngineProblem(409, `Conflict. The container name "/${name}" is already in use by container "${standing.id}".`);
    for (const { Source } of body.HostConfig?.Mounts ?? []) this.volume(Source);
    const volume = body.HostConfig?.Mounts?.[0]?.Source;
    const address = this.freeAddress();
    const files = volume === undefined ? new Map<string, Buffer>() : this.volume(volume).files;
    const parts = { imageId, address, program: this.programOf(body.Image), files };
    const container = new FakeContainer(name, body, parts, (ended) => this.ended(ended));
    this.byId.set(container.id, container);
    this.byName.set(name, container);
    this.byAddress.set(address, container);
    const agent = container.labels[AGENT_LABEL];
    if (agent !== undefined) this.byAgent.set(agent, (this.byAgent.get(agent) ?? new Set()).add(container));
    return container;
  }

  /** Adds a container in a state as if it had existed for long; emits no event. */
  async seed({ name, body, imageId, status, exitCode = 0 }: SeededContainer): Promise<FakeContainer> {
    const container = this.create(name, body, imageId);
    container.start();
    if (status === 'exited') {
      container.status = 'exited';
      container.exitCode = exitCode;
      return container;
    }
    await this.listen(container);
    if (status === 'paused') container.freeze();
    return container;
  }

  async start(container: FakeContainer): Promise<void> {
    if (container.status === 'paused') throw new EngineProblem(409, 'cannot start a paused container, try unpause instead');
    if (container.running) throw new EngineProblem(304, '');
    // The container is started at once, so that of two simultaneous starts the second finds it running.
    container.start();
    if (!container.isSupervised) await this.begin(container, null);
    this.emit(container, 'start');
  }

  /** Starts the program of a container that runs. */
  async begin(container: FakeContainer, variables: Record<string, string> | null): Promise<void> {
    const program = container.command[0] ?? '';
    if (program.startsWith('no-such-program')) {
      container.run().print('stderr', Buffer.from(`${program}: No such file or directory\n`));
      container.exit(127);
      return;
    }
    container.begin(variables);
    if (container.running) await this.listen(container);
  }

  async stop(container: FakeContainer, graceSeconds: number): Promise<void> {
    if (!container.running) throw new EngineProblem(304, '');
    container.thaw();
    if (graceSeconds > 0 && !container.terminate()) await new Promise((resolve) => setTimeout(resolve, graceSeconds * 1_000));
    container.exit(137);
    this.emit(container, 'stop');
  }

  pause(container: FakeContainer, traits: FakeEngineTraits): void {
    if (container.status === 'paused') throw new EngineProblem(409, `Container ${container.id} is already paused`);
    if (!container.running) throw new EngineProblem(409, `Container ${container.id} is not running`);
    traits.assertPauses(container.id);
    container.freeze();
    this.emit(container, 'pause');
  }

  unpause(container: FakeContainer): void {
    if (container.status !== 'paused') throw new EngineProblem(409, `Container ${container.id} is not paused`);
    container.thaw();
    this.emit(container, 'unpause');
  }

  remove(container: FakeContainer, force: boolean): void {
    if (container.running && !force) throw new EngineProblem(409, `You cannot remove a running container ${container.id}.`);
    container.exit(137);
    this.byId.delete(container.id);
    this.byName.delete(container.name);
    this.byAddress.delete(container.parts.address);
    const agent = container.labels[AGENT_LABEL];
    const siblings = agent === undefined ? undefined : this.byAgent.get(agent);
    siblings?.delete(container);
    if (agent !== undefined && siblings?.size === 0) this.byAgent.delete(agent);
    this.emit(container, 'destroy');
  }

  /** Returns the volume of that name, and makes it if it does not exist. */
  volume(name: string, labels: Labels = {}) {
    const volume = this.volumes.get(name) ?? { labels, createdAt: new Date().toISOString(), files: new Map<string, Buffer>() };
    this.volumes.set(name, volume);
    return volume;
  }

  removeVolume(name: string): void {
    if (!this.volumes.has(name)) throw new EngineProblem(404, `get ${name}: no such volume`);
    const users = [...this.byId.values()].filter(({ body }) => body.HostConfig?.Mounts?.some(({ Source }) => Source === name));
    if (users.length > 0) throw new EngineProblem(409, `remove ${name}: volume is in use - [${users.map(({ id }) => id).join(', ')}]`);
    this.volumes.delete(name);
    this.events.emit('volume', 'destroy', name, {});
  }

  close(): void {
    this.listeners.closeAll();
  }

  private async listen(container: FakeContainer): Promise<void> {
    const { address, program } = container.parts;
    const take = program.connection && ((socket: Socket) => program.connection?.(container.run(), socket));
    if (program.listens) await this.listeners.open(address, container.port, take);
  }

  private freeAddress(): string {
    for (;;) {
      const address = this.listeners.address();
      if (!this.byAddress.has(address)) return address;
    }
  }

  private ended(container: FakeContainer): void {
    this.listeners.close(container.parts.address);
    this.emit(container, 'die');
  }

  private emit(container: FakeContainer, action: string): void {
    this.events.emit('container', action, container.id, { ...container.labels, name: container.name, image: container.body.Image });
  }

  private async answerCall(address: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const container = this.byAddress.get(address);
    if (container === undefined) return void response.destroy();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    await container.thawed();
    if (!container.running) return void response.destroy();
    const asked = { method: request.method ?? '', path: request.url ?? '', body: Buffer.concat(chunks) };
    try {
      const { status, body } = await container.parts.program.answer(container.run(), asked);
      response.writeHead(status).end(body);
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  }
}

function bears(labels: Labels, wanted: string): boolean {
  const at = wanted.indexOf('=');
  return at < 0 ? wanted in labels : labels[wanted.slice(0, at)] === wanted.slice(at + 1);
}
