import type Dockerode from 'dockerode';

import { firstIdOf } from './builder-names.ts';
import { builderOptions, wrongBuilderSettings } from './builder-options.ts';

const place = { instance: 'abc', accountId: 'account; rm -rf /', slot: 0, code: 'c0de'.repeat(16) };
const asked = builderOptions(place, {
  image: 'image',
  memoryBytes: 1024,
  cpus: 1.5,
  keepMb: 100,
  cacheBytes: 1024,
  filesMax: 1_000,
  seccomp: '{"a": 1}',
  appArmor: null,
});

type HostConfig = Record<string, unknown>;
const made = (host: HostConfig = {}, config: HostConfig = {}): Dockerode.ContainerInspectInfo =>
  ({
    Config: { Entrypoint: asked.Entrypoint, Cmd: null, Env: asked.Env, User: '0:0', ...config },
    HostConfig: { ...asked.HostConfig, CapAdd: ['CAP_SETUID', 'CAP_SETGID'], Devices: [], ...host },
    Mounts: [{ Type: 'volume', Name: asked.HostConfig?.Mounts?.[0]?.Source, Destination: '/var/lib/buildkit', RW: true }],
  }) as unknown as Dockerode.ContainerInspectInfo;

describe('a builder', () => {
  it('has no data of its account in its command and its environment', () => {
    expect(JSON.stringify([asked.Entrypoint, asked.Env, asked.name])).not.toContain('account');
  });

  it('maps its root to no user of the host: ids above those that hosts use, a range of 65536', () => {
    const first = firstIdOf(place);
    expect(first).toBeGreaterThanOrEqual(1_879_048_192);
    expect(first + 65_536).toBeLessThan(2 ** 31 + 1);
    expect(asked.Entrypoint).toContain(`--map-users=${first},0,65536`);
  });

  it('may start if the engine keeps every setting', () => {
    expect(wrongBuilderSettings(asked, made())).toEqual([]);
    expect(wrongBuilderSettings(asked, made({ SecurityOpt: ['seccomp={"a":1}', 'no-new-privileges:true'] }))).toEqual([]);
  });

  it.each([
    ['CapAdd', { CapAdd: ['SETUID', 'SETGID', 'SYS_ADMIN'] }],
    ['CapDrop', { CapDrop: [] }],
    ['SecurityOpt', { SecurityOpt: ['seccomp={"a":1}'] }],
    ['seccomp', { SecurityOpt: ['no-new-privileges', 'seccomp=unconfined'] }],
    ['SecurityOpt', { SecurityOpt: ['seccomp={"a":1}', 'label=disable'] }],
    ['SecurityOpt', { SecurityOpt: ['no-new-privileges', 'seccomp={"a":1}', 'apparmor=unconfined'] }],
    ['MaskedPaths', { MaskedPaths: ['/proc/kcore'] }],
    ['ReadonlyPaths', { ReadonlyPaths: ['/proc/sys'] }],
    ['Privileged', { Privileged: true }],
    ['ReadonlyRootfs', { ReadonlyRootfs: false }],
    ['PidsLimit', { PidsLimit: 0 }],
    ['Memory', { Memory: 0 }],
    ['NanoCpus', { NanoCpus: 0 }],
    ['NetworkMode', { NetworkMode: 'host' }],
    ['Tmpfs', { Tmpfs: { '/tmp': '' } }],
    ['Devices', { Devices: [{ PathOnHost: '/dev/kvm' }] }],
    ['Namespaces', { PidMode: 'host' }],
    ['Binds', { Binds: ['/:/host'] }],
  ])('may not start if the engine did not keep its %s', (name, host) => {
    expect(wrongBuilderSettings(asked, made(host))).toContain(name);
  });

  it('may not start with another command, user, environment or mount', () => {
    expect(wrongBuilderSettings(asked, made({}, { Entrypoint: ['sh'] }))).toEqual(['Entrypoint']);
    expect(wrongBuilderSettings(asked, made({}, { User: '' }))).toEqual(['User']);
    expect(wrongBuilderSettings(asked, made({}, { Env: [...(asked.Env ?? []), 'LD_PRELOAD=x'] }))).toEqual(['Env']);
    const more = made();
    more.Mounts.push({ Type: 'bind', Source: '/', Destination: '/host' } as never);
    expect(wrongBuilderSettings(asked, more)).toEqual(['Mounts']);
  });
});
