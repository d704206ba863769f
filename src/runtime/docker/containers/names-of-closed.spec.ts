import type Dockerode from 'dockerode';
import { testContainerKey } from '../../../../test/support/container-key.ts';
import { containerSpec } from '../../../../test/support/container-spec.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { isListedKind, networkName, type NetworkKind } from '../engine/names.ts';
import { asksForbiddenNames, createOptions, ignoredSettings } from './hardening.ts';

describe('the names that an agent can look up', () => {
  const identities = new ContainerIdentities('abcdef012345', testContainerKey('abcdef012345'));
  const optionsOn = (network: NetworkKind) => {
    const listed = isListedKind(network) ? { address: '172.20.0.9', proxy: 'http://172.20.0.2:3128' } : null;
    const around = {
      identities,
      network,
      listed,
      helperVolume: 'h',
      command: ['/agent'],
      ociRuntime: null,
      user: null,
      seccomp: null,
      published: null,
      rootFromImage: false,
    };
    return createOptions(containerSpec('image'), around);
  };
  const made = (NetworkMode: string, Dns?: string[]) =>
    ({ HostConfig: { NetworkMode, Dns }, Config: {}, Mounts: [] }) as unknown as Dockerode.ContainerInspectInfo;

  it.each(['closed', 'listed', 'published-closed', 'published-listed'] as const)(
    'are none outside on the %s network, and an engine that ignores that is refused',
    (network) => {
      const options = optionsOn(network);
      expect(options.HostConfig?.Dns).toEqual(['127.0.0.1']);
      expect(ignoredSettings(options, made('', ['192.0.2.53']))).toContain('Dns');
      expect(ignoredSettings(options, made(''))).toContain('Dns');
      expect(ignoredSettings(options, made('', ['127.0.0.1']))).not.toContain('Dns');
    },
  );

  it('are those of the engine on the open network', () => {
    expect(optionsOn('open').HostConfig).not.toHaveProperty('Dns');
    expect(ignoredSettings(optionsOn('open'), made('', ['192.0.2.53']))).not.toContain('Dns');
  });

  it('are restricted for containers of earlier releases too, which are created again', () => {
    const on = (kind: NetworkKind) => networkName(identities.instance, kind);
    expect([made(on('closed')), made(on('listed'), [])].map((found) => asksForbiddenNames(found, identities.instance))).toEqual([
      true,
      true,
    ]);
    expect(asksForbiddenNames(made(on('closed'), ['127.0.0.1']), identities.instance)).toBe(false);
    expect(asksForbiddenNames(made(on('open')), identities.instance)).toBe(false);
  });
});
