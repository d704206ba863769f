import { EngineProblem } from './engine-problem.ts';

/** Describes the engine that the stand-in imitates. Tests may change it at any time. */
export class FakeEngineTraits {
  /** The answer to `GET /version`. */
  version: Record<string, unknown> = {
    ApiVersion: '1.41',
    Components: [{ Name: 'Engine', Version: 'stand-in' }],
    Version: 'stand-in',
    Os: 'linux',
    Arch: process.arch === 'x64' ? 'amd64' : process.arch,
  };
  /** The answer to `GET /info`, but for the number of containers; null refuses the question, as a proxy of the socket does. */
  info: Record<string, unknown> | null = {
    OperatingSystem: 'stand-in',
    MemoryLimit: true,
    SwapLimit: true,
    CpuCfsPeriod: true,
    CpuCfsQuota: true,
    PidsLimit: true,
    CgroupDriver: 'cgroupfs',
    CgroupVersion: '1',
  };
  /** The API versions that are served, by their minor numbers. */
  api = { lowest: 12, highest: 41 };
  /** The message with which each pause is refused; null stands for an engine that can pause. */
  pauseRefusal: string | null = null;
  /** The API versions that calls requested; an empty one stands for none. */
  readonly asked = new Set<string>();

  /** Checks the API version in a call's path, and returns the path without it. Throws the engine's refusal. */
  servedPath(path: string): string {
    const [prefix = '', version = '', minor] = /^\/v(1\.(\d+))(?=\/)/.exec(path) ?? [];
    this.asked.add(version);
    if (Number(minor) > this.api.highest)
      throw new EngineProblem(400, `client version ${version} is too new. Maximum supported API version is 1.${this.api.highest}`);
    if (Number(minor) < this.api.lowest)
      throw new EngineProblem(
        400,
        `client version ${version} is too old. Minimum supported API version is 1.${this.api.lowest}, please upgrade your client to a newer version`,
      );
    return path.slice(prefix.length);
  }

  /** Throws the engine's refusal to pause a running container. */
  assertPauses(containerId: string): void {
    if (this.pauseRefusal !== null) throw new EngineProblem(500, `Cannot pause container ${containerId}: ${this.pauseRefusal}`);
  }

  infoWith(Containers: number): object {
    if (this.info === null) throw new EngineProblem(403, 'Request forbidden by administrative rules.');
    return { ...this.info, Containers };
  }
}
