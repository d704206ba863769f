import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';

import { Config } from '../../src/kernel/config/config.ts';
import { LocalRuntime } from '../../src/runtime/local/local-runtime.ts';
import { probeFiles, startCommand } from '../contracts/runtime.probe.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import type { ImageSource, ResolvedImage } from '../../src/runtime/image-source.ts';
import type { ContainerName } from '../../src/runtime/container.ts';
import { RuntimeUnavailable } from '../../src/runtime/runtime.errors.ts';

interface Fault {
  /** The number of the agent's call that fails, from 1. */
  call: number;
  when: 'before' | 'after';
}

/** The local runtime, in which a chosen call for an agent fails once. Every image runs the probe of the contract suite. */
export class FaultyRuntime {
  readonly runtime: ContainerRuntime;
  /** The calls so far, by agent. */
  readonly calls = new Map<string, string[]>();
  private readonly faults = new Map<string, Fault>();
  private readonly program = mkdtempSync(join(tmpdir(), 'mooring-probe-'));
  /** The work that replaces the build of an image. */
  imageWork: (log: (line: string) => void, signal: AbortSignal) => Promise<void> = () => Promise.resolve();

  private constructor(readonly inner: LocalRuntime) {
    for (const [name, text] of Object.entries(probeFiles)) writeFileSync(join(this.program, name), text);
    const call = this.call.bind(this);
    const ensureImage = this.ensureImage.bind(this);
    this.runtime = new Proxy<ContainerRuntime>(inner, {
      get(target, name) {
        const member = Reflect.get(target, name) as unknown;
        if (name === 'ensureImage') return ensureImage;
        if (typeof member !== 'function') return member;
        const bound = (...args: unknown[]): unknown => (member as (...given: unknown[]) => unknown).apply(target, args);
        return [
          'events',
          'logs',
          'lastLines',
          'list',
          'listCached',
          'capabilities',
          'ping',
          'available',
          'egress',
          'engineStatus',
          'volumeSizes',
          'close',
        ].includes(String(name))
          ? bound
          : (...args: unknown[]) => call(String(name), args, bound as (...given: unknown[]) => Promise<unknown>);
      },
    });
  }

  static async open(dataDir: string): Promise<FaultyRuntime> {
    return new FaultyRuntime(await LocalRuntime.open({ instance: 'test', dataDir }));
  }

  failAt(agentId: string, fault: Fault): void {
    this.calls.set(agentId, []);
    this.faults.set(agentId, fault);
  }

  /** Returns whether the fault has happened. */
  failed(agentId: string): boolean {
    return !this.faults.has(agentId);
  }

  /** Cancels the fault, so that no later call fails. Returns whether it has happened. */
  takeBack(agentId: string): boolean {
    return !this.faults.delete(agentId);
  }

  /** Removes all containers and volumes that were created. */
  async clear(): Promise<void> {
    const { containers, volumes } = await this.inner.list();
    for (const { handle } of containers) await this.inner.remove(handle);
    for (const agentId of volumes) await this.inner.removeVolume(agentId);
    rmSync(this.program, { recursive: true, force: true });
  }

  private async ensureImage(asked: ImageSource, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage> {
    await this.imageWork(log, signal);
    const program = { kind: 'program' as const, directory: this.program, language: 'node' as const, start: startCommand };
    return this.inner.ensureImage(asked.kind === 'earlier' ? asked : program, log, signal);
  }

  private async call(name: string, args: unknown[], make: (...args: unknown[]) => Promise<unknown>): Promise<unknown> {
    const agentId = agentOf(args[0] as string | ContainerName);
    const calls = this.calls.get(agentId) ?? [];
    this.calls.set(agentId, calls);
    calls.push(name);
    const fault = this.faults.get(agentId);
    if (fault?.call !== calls.length) return make(...args);
    this.faults.delete(agentId);
    if (fault.when === 'after') await make(...args);
    throw new RuntimeUnavailable(new Error(`${name} was made to fail`));
  }
}

function agentOf(subject: string | ContainerName): string {
  return typeof subject === 'string' ? subject.replace(/-g\d+$/, '') : subject.agentId;
}

/** Provides the test's runtime, and stops its agents when the application stops. */
@Module({})
export class FaultyRuntimeModule implements OnApplicationShutdown {
  constructor(@Inject(FaultyRuntime) private readonly faulty: FaultyRuntime) {}

  static forTest(opened: (faulty: FaultyRuntime) => void): DynamicModule {
    const open = async (config: Config) => {
      const faulty = await FaultyRuntime.open(config.dataDir);
      opened(faulty);
      return faulty;
    };
    return {
      module: FaultyRuntimeModule,
      global: true,
      providers: [
        { provide: FaultyRuntime, inject: [Config], useFactory: open },
        { provide: ContainerRuntime, inject: [FaultyRuntime], useFactory: (faulty: FaultyRuntime) => faulty.runtime },
      ],
      exports: [ContainerRuntime],
    };
  }

  onApplicationShutdown(): Promise<void> {
    return this.faulty.clear();
  }
}
