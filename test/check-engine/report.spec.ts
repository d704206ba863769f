import {
  chosenParts,
  engineFacts,
  exitStatus,
  isBlocked,
  resultLines,
  summaryLines,
  type Result,
} from '../../scripts/check-engine/report.ts';
import { serviceEnvironment } from '../../scripts/check-engine/service-environment.ts';

const result = (state: Result['state'], name = 'it runs', why: string | null = null): Result => ({ name, state, why, ms: 1_250 });

describe('the facts of an engine', () => {
  const of = (version: object, info: object) => Object.fromEntries(engineFacts(version, info, 'unix:///run/engine.sock'));
  const limits = { MemoryLimit: true, CpuCfsQuota: true, PidsLimit: true };

  it('name its version, its image store, its cgroups and its limits', () => {
    const version = { Version: '29.7.2', ApiVersion: '1.55', Os: 'linux', Arch: 'amd64', Components: [{ Name: 'Engine' }] };
    const info = {
      ...limits,
      Driver: 'overlayfs',
      DriverStatus: [['driver-type', 'io.containerd.snapshotter.v1']],
      CgroupVersion: '2',
      CgroupDriver: 'systemd',
      OperatingSystem: 'Debian',
      KernelVersion: '6.1',
      SecurityOptions: ['name=seccomp,profile=builtin'],
    };
    expect(of(version, info)).toEqual({
      engine: 'Docker Engine 29.7.2, API 1.55, linux/amd64',
      'reached by': 'unix:///run/engine.sock',
      system: 'Debian, kernel 6.1',
      'image store': 'containerd (overlayfs)',
      cgroups: 'version 2, driver systemd',
      limits: 'memory, processor, processes',
      rootless: 'no',
    });
  });

  it('tell a rootless engine without cgroups, a graph driver and Podman', () => {
    const info = { Driver: 'overlay2', DriverStatus: [['Backing Filesystem', 'extfs']], CgroupVersion: '1', CgroupDriver: 'none' };
    const rootless = {
      ...info,
      SecurityOptions: ['name=seccomp', 'name=rootless'],
      MemoryLimit: false,
      CpuCfsQuota: true,
      PidsLimit: false,
    };
    expect(of({ Components: [{ Name: 'Podman Engine' }], Version: '4.3.1' }, rootless)).toMatchObject({
      engine: expect.stringContaining('Podman Engine 4.3.1'),
      'image store': 'graph driver (overlay2)',
      cgroups: 'none',
      limits: 'not enforced: memory, processes',
      rootless: 'yes',
    });
  });
});

describe('the report', () => {
  it('shows each step with its time, and the reason of what does not simply hold in one line', () => {
    expect(resultLines(result('holds'))).toEqual(['  holds        1.3 s  it runs']);
    const [first, reason] = resultLines(result('failed', 'it runs', 'first\n  second'));
    expect([first, reason?.trim()]).toEqual(['  FAILED       1.3 s  it runs', 'first second']);
    expect(resultLines(result('failed', 'it runs', 'x'.repeat(5_000))).join('').length).toBeLessThan(800);
  });

  it('ends with what differs, was not tried or failed, and the counts', () => {
    const results = [
      result('holds'),
      result('differs', 'it freezes', 'no cgroups'),
      result('failed', 'it wakes', 'late'),
      result('not tried', 'it chats'),
    ];
    expect(summaryLines(results, 61_000)).toEqual([
      '',
      'differs',
      '  it freezes: no cgroups',
      '',
      'FAILED',
      '  it wakes: late',
      '',
      '1 hold, 1 differ, 1 failed, 1 not tried, in 61 s',
    ]);
  });

  it('fails the walk if a step failed, or none could be tried, and not for a difference', () => {
    expect(exitStatus([result('holds'), result('differs'), result('not tried')])).toBe(0);
    expect(exitStatus([result('holds'), result('failed')])).toBe(1);
    expect(exitStatus([result('not tried')])).toBe(1);
  });
});

describe('the steps of a walk', () => {
  it('are left out if the step that they need does not hold', () => {
    const needy = { needs: 'it runs' };
    expect([isBlocked({}, []), isBlocked(needy, [result('holds')])]).toEqual([false, false]);
    for (const state of ['failed', 'differs', 'not tried'] as const) expect(isBlocked(needy, [result(state)])).toBe(true);
    expect(isBlocked(needy, [])).toBe(true);
  });

  it('are all parts, or those that are named; an unknown name is refused with those that there are', () => {
    const parts = ['agents', 'builds', 'limits'].map((name) => ({ name }));
    const namesOf = (...names: string[]) => chosenParts(parts, names).map(({ name }) => name);
    expect(namesOf()).toEqual(['agents', 'builds', 'limits']);
    expect(namesOf('limits', 'agents')).toEqual(['agents', 'limits']);
    expect(() => namesOf('limit')).toThrow('agents, builds, limits');
  });
});

describe('the environment of the service that walks', () => {
  it('has the operator’s settings of the engine, and none that leads to another installation', () => {
    const operator = {
      DOCKER_HOST: 'tcp://builder:2376',
      MOORING_BUILDER: 'engine',
      MOORING_DATA_DIR: '/var/lib/mooring',
      DATABASE_URL: 'postgres://db',
      EVENT_STORE: 'eventstoredb',
      EVENTSTORE_URL: 'esdb://db',
      MOORING_MASTER_KEY: 'a key',
      MOORING_ADMIN_PASSWORD: 'a password',
      NODE_ENV: 'production',
      PORT: '8080',
    };
    expect(serviceEnvironment(operator, { MOORING_DATA_DIR: '/tmp/walk', PORT: '0' })).toEqual({
      DOCKER_HOST: 'tcp://builder:2376',
      MOORING_BUILDER: 'engine',
      MOORING_DATA_DIR: '/tmp/walk',
      PORT: '0',
    });
  });

  it('adds the walk’s hosts and images to those that the operator names', () => {
    const operator = { MOORING_ALLOW_PRIVATE_SOURCES: 'git.local', MOORING_SHARED_IMAGES: '' };
    expect(serviceEnvironment(operator, { MOORING_ALLOW_PRIVATE_SOURCES: '127.0.0.1', MOORING_SHARED_IMAGES: 'own' })).toEqual({
      MOORING_ALLOW_PRIVATE_SOURCES: 'git.local,127.0.0.1',
      MOORING_SHARED_IMAGES: 'own',
    });
  });
});
