import { createServer, type AddressInfo, type Server } from 'node:net';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { apiKeyEvents } from '../../src/features/api-keys/index.ts';
import { ComputerDesktopsModule } from '../../src/features/computers/computer-desktops.module.ts';
import { viewerEvents } from '../../src/features/computers/index.ts';
import { ViewedDesktopsModule } from '../../src/features/computers/viewed-desktops.module.ts';
import { ViewersModule } from '../../src/features/computers/viewers.module.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import { computerSandbox } from '../../src/sandboxes/index.ts';
import { ComputerFixture, computerFeatures } from './computer-fixture.ts';
import { containerSpec } from './container-spec.ts';
import { runningFeatures } from './features.ts';
import { startFeatureServer } from './feature-server.ts';
import type { TestServer } from './http-server.ts';
import { LocalRuntimeModule } from './local-runtime-module.ts';
import { FakeRfbServer } from './fake-rfb-server.ts';
import { until } from './until.ts';

/** Listens where a desktop does, and passes each connection on to the port. */
const program = (port: number) => `
import { mkdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
const folder = process.env.XDG_RUNTIME_DIR ?? join(import.meta.dirname, '../run/user/1000');
mkdirSync(folder, { recursive: true });
process.chdir(folder);
createServer((socket) => {
  const desktop = connect(${port}, '127.0.0.1');
  const end = () => { socket.destroy(); desktop.destroy(); };
  for (const each of [socket, desktop]) each.on('error', end).on('close', end);
  socket.pipe(desktop).pipe(socket);
}).listen('vnc.sock', () => console.log('ready'));
`;

/** The containers of computers on a local runtime, with stand-ins for their desktops. */
export class DesktopContainers {
  private readonly folder = mkdtempSync(join(tmpdir(), 'mooring-computers-'));
  private readonly listeners: Server[] = [];
  private readonly handles: string[] = [];

  constructor(private readonly server: TestServer) {}

  /** Starts a container of the computer, with that desktop. */
  async start(computerId: string, desktop: FakeRfbServer): Promise<void> {
    const { runtime } = this;
    const { image } = await runtime.ensureImage(await this.programOf(desktop), () => undefined, new AbortController().signal);
    const agentId = computerSandbox(computerId);
    const spec = containerSpec(image, { agentId, volumePath: '/home/user' });
    const { handle } = await runtime.create(spec);
    this.handles.push(handle);
    await runtime.start(handle, spec.environment);
    await until('the desktop', async () => ((await runtime.lastLines(handle, 1)).includes('ready') ? true : undefined));
  }

  /** Makes the service create the containers of all computers with that desktop, so that the machine does not need a desktop's programs. */
  async serve(desktop: FakeRfbServer): Promise<void> {
    const { runtime } = this;
    const source = await this.programOf(desktop);
    const ensureImage = runtime.ensureImage.bind(runtime);
    jest
      .spyOn(runtime, 'ensureImage')
      .mockImplementation((asked, log, signal) => ensureImage(asked.kind === 'computer' ? source : asked, log, signal));
  }

  /** Removes the containers; the server must still run. */
  async close(): Promise<void> {
    for (const handle of this.handles) await this.runtime.remove(handle);
    for (const listener of this.listeners) listener.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async programOf(desktop: FakeRfbServer) {
    writeFileSync(join(this.folder, 'desk.mjs'), program(await this.listen(desktop)));
    return { kind: 'program' as const, directory: this.folder, language: 'node' as const, start: ['node', 'desk.mjs'] };
  }

  private get runtime(): ContainerRuntime {
    return this.server.app.get(ContainerRuntime, { strict: false });
  }

  private async listen(desktop: FakeRfbServer): Promise<number> {
    const listener = createServer((socket) => {
      const dialled = desktop.dial();
      const end = () => {
        socket.destroy();
        dialled.destroy();
      };
      for (const each of [socket, dialled]) each.on('error', end).on('close', end);
      socket.pipe(dialled).pipe(socket);
    });
    this.listeners.push(listener);
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    return (listener.address() as AddressInfo).port;
  }
}

/** Computers of a real server in containers of the local runtime, with stand-ins for their desktops. */
export class ComputerContainers {
  private readonly containers: DesktopContainers;

  private constructor(
    readonly server: TestServer,
    readonly bed: ComputerFixture,
  ) {
    this.containers = new DesktopContainers(server);
  }

  static async start(computers = 20): Promise<ComputerContainers> {
    const running = runningFeatures(LocalRuntimeModule.forTest());
    const viewers = ViewersModule.of(ViewedDesktopsModule);
    const modules = [...new Set([...running.modules, ...computerFeatures.modules, ComputerDesktopsModule, ApiKeysModule, viewers])];
    const more = [viewerEvents, apiKeyEvents].flatMap((events) => Object.values(events));
    const definitions = [...new Set([...running.definitions, ...computerFeatures.definitions, ...more])];
    const server = await startFeatureServer({ modules, definitions });
    return new ComputerContainers(server, await ComputerFixture.open(server, 'acme', computers));
  }

  /** Creates a computer that is awake, and returns its desktop. */
  async awake(endUserId: string): Promise<{ computerId: string; desktop: FakeRfbServer }> {
    const display = { width: 640, height: 480 };
    const desktop = new FakeRfbServer(display);
    const computerId = await this.bed.awake(endUserId, { display });
    await this.containers.start(computerId, desktop);
    return { computerId, desktop };
  }

  async close(): Promise<void> {
    await this.containers.close();
    await this.server.close();
  }
}
