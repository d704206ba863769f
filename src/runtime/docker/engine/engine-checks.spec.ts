import type Dockerode from 'dockerode';
import { EngineUnsupported, RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { EngineChecks } from './engine-checks.ts';
import { EngineHealth } from './engine-health.ts';
import { LOWEST_SAFE_VERSION } from './engine-version.ts';

const LIMITED = { MemoryLimit: true, SwapLimit: true, CpuCfsQuota: true, PidsLimit: true, CgroupDriver: 'cgroupfs' };
const UNLIMITED = { ...LIMITED, MemoryLimit: false, PidsLimit: false };

/** An engine whose answers can be changed; null stands for one that is away. */
class Engine {
  version: object | null = { Version: '29.5.1' };
  info: object | null = LIMITED;
  readonly said: string[] = [];
  readonly calls: string[] = [];
  readonly checks: EngineChecks;

  constructor(requireLimits = false) {
    const docker = { version: () => this.answer('version'), info: () => this.answer('info') } as unknown as Dockerode;
    const warn = (fields: object, message: string) => this.said.push(`${message} ${JSON.stringify(fields)}`);
    this.checks = new EngineChecks(docker, new EngineHealth(async () => 'OK'), { requireLimits, warn });
  }

  private async answer(question: 'version' | 'info'): Promise<object> {
    this.calls.push(question);
    const answer = this[question];
    if (answer === null) throw Object.assign(new Error('connect ENOENT'), { code: 'ENOENT' });
    return answer;
  }
}

describe('an engine with known faults', () => {
  it('is reported once for each version, and checked again only after it was unavailable', async () => {
    const engine = new Engine();
    engine.version = { Version: '20.10.24' };
    expect((await engine.checks.status()).warnings).toEqual([expect.stringContaining(`older than ${LOWEST_SAFE_VERSION}`)]);
    await engine.checks.status();
    await engine.checks.assertStartable();
    expect(engine.calls).toEqual(['version', 'info']);
    for (const [Version, warns] of [
      ['20.10.24', true],
      ['28.0.0', true],
      ['29.5.1', false],
    ] as const) {
      engine.version = { Version };
      engine.checks.check();
      expect((await engine.checks.status()).warnings.length > 0).toBe(warns);
    }
    expect(engine.said).toEqual([expect.stringContaining('"version":"20.10.24"'), expect.stringContaining('"version":"28.0.0"')]);
  });

  it('is reported without its version in the sentence, which strangers may read', async () => {
    const engine = new Engine();
    engine.version = { Version: '20.10.24' };
    expect(JSON.stringify(await engine.checks.status())).not.toContain('20.10');
  });

  it('is checked again at once after it did not respond', async () => {
    const engine = new Engine();
    engine.version = null;
    for (let n = 0; n < 2; n += 1) await expect(engine.checks.status()).rejects.toThrow(RuntimeUnavailable);
    expect(engine.calls.filter((call) => call === 'version')).toHaveLength(2);
    engine.version = { Version: '29.5.1' };
    expect(await engine.checks.status()).toEqual({ lack: null, warnings: [] });
  });
});

describe('an engine that does not enforce the limits of agents', () => {
  it('is reported in the status and in the log, and agents start', async () => {
    const engine = new Engine();
    engine.info = UNLIMITED;
    const sentence = 'the engine does not enforce the limits of agents on memory and processes';
    expect(await engine.checks.status()).toEqual({ lack: null, warnings: [sentence] });
    await engine.checks.assertStartable();
    expect(engine.said).toEqual([
      expect.stringMatching(/DOES NOT ENFORCE THE LIMITS OF AGENTS \(MOORING_REQUIRE_LIMITS\).*on memory and processes.*allowed/),
    ]);
  });

  it('starts no agent where limits are required, until it enforces them', async () => {
    const engine = new Engine(true);
    engine.info = UNLIMITED;
    await expect(engine.checks.assertStartable()).rejects.toThrow(RuntimeRefused);
    await expect(engine.checks.assertStartable()).rejects.toThrow(/No agent is started.*on memory and processes.*MOORING_REQUIRE_LIMITS/);
    await engine.checks.assertSupported();
    expect(await engine.checks.status()).toEqual({ lack: expect.stringContaining('on memory and processes'), warnings: [] });
    engine.info = LIMITED;
    engine.checks.check();
    await engine.checks.assertStartable();
    expect(await engine.checks.status()).toEqual({ lack: null, warnings: [] });
  });

  it('does not delay starts for a response that nothing depends on', async () => {
    const engine = new Engine();
    engine.info = null;
    await engine.checks.assertStartable();
  });

  it('is reported if only swap is not limited, and agents start in any case', async () => {
    const engine = new Engine(true);
    engine.info = { ...LIMITED, SwapLimit: false };
    await engine.checks.assertStartable();
    expect((await engine.checks.status()).warnings).toEqual([expect.stringContaining('swap')]);
  });
});

describe('an engine that can’t freeze', () => {
  it('is remembered for the connection, and reported', async () => {
    const engine = new Engine();
    await engine.checks.status();
    expect(engine.checks.canFreeze).toBe(true);
    engine.checks.noteFreezeRefused();
    engine.checks.noteFreezeRefused();
    expect(engine.checks.canFreeze).toBe(false);
    expect((await engine.checks.status()).warnings).toEqual([expect.stringContaining('can’t freeze')]);
    expect(engine.said).toHaveLength(1);
    engine.checks.check();
    expect(engine.checks.canFreeze).toBe(true);
  });

  it('is recognized by its own message if it has no cgroups', async () => {
    const engine = new Engine();
    engine.info = { ...UNLIMITED, CgroupDriver: 'none' };
    await engine.checks.status();
    expect(engine.checks.canFreeze).toBe(false);
  });
});

describe('an engine that is not supported', () => {
  it('is reported in the status and in the log, and counts as unavailable until another one responds', async () => {
    const engine = new Engine();
    engine.version = { Version: '5.3.1', Components: [{ Name: 'Podman Engine' }] };
    await expect(engine.checks.assertSupported()).rejects.toThrow(EngineUnsupported);
    await expect(engine.checks.assertStartable()).rejects.toThrow(RuntimeUnavailable);
    expect(engine.checks.isSupported).toBe(false);
    expect(await engine.checks.status()).toEqual({ lack: expect.stringContaining('is Podman'), warnings: [] });
    expect(engine.said).toEqual([expect.stringMatching(/IS NOT SUPPORTED.*Podman/)]);
    engine.version = { Version: '29.5.1' };
    engine.checks.check();
    await engine.checks.assertSupported();
    expect(engine.checks.isSupported).toBe(true);
  });
});
