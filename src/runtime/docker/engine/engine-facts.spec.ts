import { RuntimeRefused } from '../../runtime.errors.ts';
import { isFreezeUnsupported, limitFacts, versionFacts } from './engine-facts.ts';

describe('an engine that can’t be used', () => {
  it.each(['Podman Engine', 'podman'])('is one that calls itself %s, whatever its version', (Name) => {
    const { unsupported, hasFaults } = versionFacts({ Version: '5.3.1', Components: [{ Name }, { Name: 'Conmon' }] });
    expect(unsupported).toMatch(/is Podman.*Docker Engine 20\.10 to 29 is supported/);
    expect(hasFaults).toBe(false);
  });

  it.each([
    'client version 1.41 is too new. Maximum supported API version is 1.40',
    'client version 1.41 is too old. Minimum supported API version is 1.44, please upgrade your client to a newer version',
  ])('is one that refuses the version of its API: %s', (message) => {
    expect(versionFacts(new RuntimeRefused(message)).unsupported).toMatch(
      /version 1\.41 of its API.*Docker Engine 20\.10 to 29 is supported/,
    );
  });

  it('is not one whose version is hidden by a proxy, or is not known', () => {
    expect(versionFacts(new RuntimeRefused('Request forbidden by administrative rules.')).unsupported).toBeNull();
    expect(versionFacts({}).unsupported).toBeNull();
    expect(versionFacts({ Version: '29.7.2', Components: [{ Name: 'Engine' }] })).toMatchObject({ unsupported: null, hasFaults: false });
  });
});

describe('the limits of agents', () => {
  const all = { MemoryLimit: true, SwapLimit: true, CpuCfsQuota: true, PidsLimit: true, CgroupDriver: 'systemd' };

  it.each([
    [{}, null],
    [{ MemoryLimit: false }, 'on memory'],
    [{ CpuCfsQuota: false, PidsLimit: false }, 'on CPU and processes'],
    [{ MemoryLimit: false, CpuCfsQuota: false, PidsLimit: false }, 'on memory, CPU and processes'],
    [{ PidsLimit: undefined }, 'on processes'],
  ])('are enforced if the engine says so, and with %j they are not: %s', (other, named) => {
    const { unenforced } = limitFacts({ ...all, ...other });
    expect(unenforced).toBe(named === null ? null : `the engine does not enforce the limits of agents ${named}`);
  });

  it('count as unenforced if a proxy refuses the request', () => {
    expect(limitFacts(new RuntimeRefused('forbidden')).unenforced).toContain('does not tell which limits');
  });

  it('leave swap open where only that is not limited', () => {
    expect(limitFacts({ ...all, SwapLimit: false })).toMatchObject({ unenforced: null, isSwapUnlimited: true });
    expect(limitFacts({ ...all, MemoryLimit: false, SwapLimit: false }).isSwapUnlimited).toBe(false);
  });
});

describe('an engine that gives its containers few user ids', () => {
  it.each<[boolean, string[]]>([
    [false, ['name=seccomp,profile=default', 'name=apparmor']],
    [true, ['name=seccomp,profile=builtin', 'name=userns']],
    [true, ['name=rootless', 'name=cgroupns']],
  ])('is known by its options (%s: %j)', (hasFewIds, SecurityOptions) => {
    expect(limitFacts({ SecurityOptions }).hasFewIds).toBe(hasFewIds);
  });

  it('is not assumed without information', () => {
    expect([{}, { SecurityOptions: null }].map((answer) => limitFacts(answer).hasFewIds)).toEqual([false, false]);
  });
});

describe('an engine that can’t freeze containers', () => {
  it('is recognized by its lack of cgroups', () => {
    expect(limitFacts({ CgroupDriver: 'none' }).canFreeze).toBe(false);
    expect(limitFacts({ CgroupDriver: 'cgroupfs' }).canFreeze).toBe(true);
    expect(limitFacts({}).canFreeze).toBe(true);
  });

  it.each<[boolean, string]>([
    [true, 'Cannot pause container x: OCI runtime pause failed: cannot toggle freezer: cgroups not configured for container: unknown'],
    [true, 'Cannot pause container x: OCI runtime pause failed: not implemented'],
    [false, 'Container x is not running'],
    [false, 'Container x is already paused'],
    [false, 'Cannot pause container x: OCI runtime pause failed: unable to freeze: unknown'],
  ])('is known (%s) by its refusal: %s', (unsupported, message) => {
    expect(isFreezeUnsupported(new RuntimeRefused(message))).toBe(unsupported);
  });
});
