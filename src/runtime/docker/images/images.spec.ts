import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import type Dockerode from 'dockerode';
import { testContainerKey } from '../../../../test/support/container-key.ts';
import { containerSpec } from '../../../../test/support/container-spec.ts';
import { hostileImageNames } from '../../../../test/support/hostile-images.ts';
import { RuntimeRefused, RuntimeUnavailable, ShellCommand } from '../../runtime.errors.ts';
import { plainTar } from '../engine/archive.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { startCommand } from './command.ts';
import { exposedPort } from './exposed-port.ts';
import { lostWhileBuilding } from './images.ts';
import { call, portError } from '../engine/engine.ts';
import { createOptions, ignoredSettings } from '../containers/hardening.ts';
import { checkReference } from '../image-sources/registry.ts';

describe('an image reference', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  const good = ['node', 'node:22-slim', 'ghcr.io/some/image:v1.2', '127.0.0.1:5000/x', 'a/b/c', `x@${digest}`, `r.io:1/x:t@${digest}`];
  it.each(good)('may read %j', (reference) => expect(() => checkReference(reference)).not.toThrow());
  it.each(['', ...hostileImageNames])('may not read %j', (reference) => expect(() => checkReference(reference)).toThrow(RuntimeRefused));
});

describe('a start command', () => {
  it.each([
    [{ Cmd: ['/bin/sh', '-c', 'npm start'] }],
    [{ Entrypoint: ['/bin/sh', '-c', 'node x.js'] }],
    [{ Entrypoint: ['tini', '--'], Cmd: ['bash', '-lc', 'x'] }],
    [{ Cmd: ['/bin/bash', '-o', 'pipefail', '-c', 'x'] }],
  ])('may not be the shell string %j', (config) => {
    expect(() => startCommand(config, null)).toThrow(ShellCommand);
    expect(() => startCommand(config, null)).toThrow(/exec form/);
  });

  it('may be a shell script, or a program with -c', () => {
    expect(startCommand({ Cmd: ['sh', '/start.sh', '-c', 'x'] }, null)).toEqual(['sh', '/start.sh', '-c', 'x']);
    expect(startCommand({ Entrypoint: ['python'], Cmd: ['-c', 'print()'] }, null)).toEqual(['python', '-c', 'print()']);
  });

  it('is the entry point and CMD, or what was said in place of both', () => {
    const config = { Entrypoint: ['tini', '--'], Cmd: ['node', 'a.js'] };
    expect(startCommand(config, null)).toEqual(['tini', '--', 'node', 'a.js']);
    expect(startCommand(config, ['node', 'b.js'])).toEqual(['node', 'b.js']);
    expect(startCommand({ Cmd: ['sh', '-c', 'x'] }, ['node', 'b.js'])).toEqual(['node', 'b.js']);
    expect(() => startCommand(config, ['sh', '-c', 'node b.js'])).toThrow(ShellCommand);
    expect(() => startCommand({ Entrypoint: null, Cmd: null }, null)).toThrow(/no start command/);
  });
});

describe('the port that an image exposes', () => {
  it.each([
    [{ '3000/tcp': {} }, 3000],
    [{ '3000/tcp': {}, '53/udp': {} }, 3000],
    [{ '3000': {} }, 3000],
    [{ '3000/tcp': {}, '9000/tcp': {} }, null],
    [{ '53/udp': {} }, null],
    [{ '0/tcp': {} }, null],
    [{ '70000/tcp': {} }, null],
    [{}, null],
    [null, null],
  ])('of %j is %j', (ExposedPorts, port) => {
    expect(exposedPort({ ExposedPorts })).toBe(port);
  });
});

describe('a build whose layer was removed between two of its steps', () => {
  it.each([
    'No such image: sha256:f66b4c33fd59',
    'failed to export image: failed to set parent sha256:24036c1e6d2d: unknown parent image ID sha256:24036c1e6d2d',
    'failed to get digest sha256:061a0af2d5df: open /var/lib/docker/image/061a0af2d5df: no such file or directory',
  ])('is known by the engine’s words %j', (message) => expect(lostWhileBuilding(new RuntimeRefused(message))).toBe(true));

  it.each(['The command npm ci failed with 1: no such file or directory', 'manifest for x:1 not found', 'No such image: x:1'])(
    'is not recognized in %j',
    (message) => expect(lostWhileBuilding(new RuntimeRefused(message))).toBe(false),
  );
});

describe('a tar for a container', () => {
  const readAll = async (stream: Readable): Promise<Buffer> => Buffer.concat((await stream.toArray()) as Buffer[]);
  const entry = (name: string) => tarOf([{ name, type: 'file', mode: 0o644, content: 'x'.repeat(2_000) }]);

  it('arrives as it was sent', async () => {
    expect((await readAll(await plainTar(entry('a.txt')))).equals(await readAll(entry('a.txt')))).toBe(true);
  });

  it('may not be compressed, nor look so to the engine, nor be something else', async () => {
    const tar = await readAll(entry('a.txt'));
    for (const stream of [Readable.from([gzipSync(tar)]), entry('BZh91AY'), Readable.from([Buffer.alloc(600, 1)]), Readable.from([])])
      await expect(plainTar(stream)).rejects.toThrow(RuntimeRefused);
  });
});

describe('the container that the engine created', () => {
  const tmpfs = [
    { path: '/run/user/1000', uid: 1_000, mode: 0o700, sizeBytes: 65_536 },
    { path: '/tmp', exec: true },
  ];
  const asked = createOptions(containerSpec('i', { agentId: 'a', cpus: 0.5, pids: 32, shmBytes: 1_024, tmpfs }), {
    identities: new ContainerIdentities('x', testContainerKey('x')),
    helperVolume: 'h',
    command: ['/agent'],
    ociRuntime: 'runsc',
    user: '7:8',
    seccomp: '{"a":1}',
    network: 'open',
    listed: null,
    published: null,
    rootFromImage: false,
  });
  const made = (changes: object): Dockerode.ContainerInspectInfo =>
    ({
      Path: asked.Entrypoint?.[0],
      Config: { User: asked.User, OpenStdin: asked.OpenStdin, StdinOnce: asked.StdinOnce },
      HostConfig: { ...asked.HostConfig, ...changes },
      Mounts: [
        { Type: 'volume', Name: 'mooring-a', Destination: '/data', RW: true },
        { Type: 'volume', Name: 'h', Destination: '/.mooring', RW: false },
      ],
    }) as unknown as Dockerode.ContainerInspectInfo;

  it('has the requested in-memory folders, each with its owner, mode and size', () => {
    expect(asked.HostConfig?.Tmpfs).toEqual({
      '/run/user/1000': 'rw,nosuid,nodev,mode=700,uid=1000,gid=1000,size=65536',
      '/tmp': 'rw,nosuid,nodev,mode=1777,uid=7,gid=8,exec',
    });
    expect(asked.HostConfig?.ShmSize).toBe(1_024);
  });

  it('is accepted if it is as requested, in either spelling of capabilities', () => {
    expect(ignoredSettings(asked, made({}))).toEqual([]);
    expect(ignoredSettings(asked, made({ SecurityOpt: ['seccomp={ "a": 1 }', 'no-new-privileges'] }))).toEqual([]);
    expect(ignoredSettings(asked, made({ CapAdd: asked.HostConfig?.CapAdd?.map((name: string) => `CAP_${name}`) }))).toEqual([]);
  });

  it.each([
    ['PidsLimit', { PidsLimit: null }],
    ['Memory', { Memory: 0 }],
    ['NanoCpus', { NanoCpus: 0 }],
    ['CapDrop', { CapDrop: null }],
    ['CapAdd', { CapAdd: ['SYS_ADMIN'] }],
    ['no-new-privileges', { SecurityOpt: ['seccomp={"a":1}'] }],
    ['seccomp', { SecurityOpt: ['no-new-privileges'] }],
    ['seccomp', { SecurityOpt: ['no-new-privileges', 'seccomp=unconfined'] }],
    ['seccomp', { SecurityOpt: ['no-new-privileges', 'seccomp={"a":2}'] }],
    ['ShmSize', { ShmSize: 64 * 1024 * 1024 }],
    ['Tmpfs', { Tmpfs: { '/tmp': '' } }],
    ['Privileged', { Privileged: true }],
    ['Init', { Init: true }],
    ['Runtime', { Runtime: 'runc' }],
    ['NetworkMode', { NetworkMode: 'default' }],
    ['Binds', { Binds: ['/:/host'] }],
  ])('is refused if %s was ignored', (name, changes) => {
    expect(ignoredSettings(asked, made(changes))).toEqual([name]);
  });

  it('is refused if the supervisor or its input was ignored', () => {
    expect(ignoredSettings(asked, { ...made({}), Path: '/agent' })).toEqual(['Entrypoint']);
    const { Config } = made({});
    expect(ignoredSettings(asked, { ...made({}), Config: { ...Config, StdinOnce: false } })).toEqual(['OpenStdin']);
  });
});

describe('an error of the engine', () => {
  const error = (fields: object) => Object.assign(new Error('(HTTP code 409) unexpected - it said no '), fields);

  it.each([
    ['RuntimeUnavailable', error({ code: 'ECONNREFUSED' })],
    ['RuntimeUnavailable', error({ code: 'ENOENT' })],
    ['RuntimeUnavailable', new Error('socket hang up')],
    ['RuntimeUnavailable', error({ statusCode: 503 })],
    ['RuntimeUnavailable', error({ statusCode: 500, json: { message: 'ttrpc: closed: unknown' } })],
    ['ContainerGone', error({ statusCode: 404, json: { message: 'No such container: x' } })],
    ['RuntimeRefused', error({ statusCode: 404, json: { message: 'network x not found' } })],
    ['RuntimeRefused', error({ statusCode: 409 })],
    ['RuntimeRefused', error({ statusCode: 500, json: { message: 'OCI runtime create failed' } })],
  ])('is %s', (name, thrown) => expect(portError(thrown, 'x').name).toBe(name));

  it('is a hanging engine, after the timeout', async () => {
    const hanging = call(null, () => new Promise(() => undefined), 20);
    await expect(hanging).rejects.toThrow(RuntimeUnavailable);
  });

  it('keeps the engine’s message, and not the client library’s', () => {
    expect(portError(error({ statusCode: 409 }), null).message).toBe('it said no');
  });
});
