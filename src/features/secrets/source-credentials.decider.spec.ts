import fc from 'fast-check';

import { fold, given, NOON } from '../../../test/support/decider-spec.ts';
import { registryHost, parseImageReference } from '../../kernel/network/image-reference.ts';
import { SOURCE_CREDENTIALS_MAX, sourceCredentialsDecider, type SourceCredentialCommand } from './source-credentials.decider.ts';
import { canonicalHost, usernameProblem } from './source-fields.ts';
import type { SecretEvent, SourceKind } from './secrets.events.ts';

const accountId = 'account-1';
const sealed = { v: 1 as const, key: 1, iv: 'aXY=', ct: 'Y3Q=' };
const store = (host: string, kind: SourceKind = 'registry'): SourceCredentialCommand => ({
  type: 'StoreSourceCredential',
  accountId,
  source: { kind, host },
  username: 'ci',
  sealed,
});
const remove = (host: string, kind: SourceKind = 'registry'): SourceCredentialCommand => ({
  type: 'RemoveSourceCredential',
  accountId,
  source: { kind, host },
});
const stored = (host: string, kind: SourceKind = 'registry', at = NOON): SecretEvent => ({
  type: 'SourceCredentialStored',
  data: { account_id: accountId, kind, host, username: 'ci', password: sealed, stored_at: at.toISOString() },
});
const removed = (host: string, kind: SourceKind = 'registry'): SecretEvent => ({
  type: 'SourceCredentialRemoved',
  data: { account_id: accountId, kind, host },
});
const credentials = (...events: SecretEvent[]) => given(sourceCredentialsDecider, ...events);

describe('the source credentials of an account', () => {
  it('are stored, replaced and removed by kind and host', () => {
    credentials().when(store('ghcr.io')).then(stored('ghcr.io'));
    credentials(stored('ghcr.io')).when(store('ghcr.io')).then(stored('ghcr.io'));
    credentials(stored('ghcr.io')).when(remove('ghcr.io')).then(removed('ghcr.io'));
    credentials(stored('ghcr.io')).when(remove('ghcr.io', 'git')).refuses('not_found');
    credentials(stored('ghcr.io')).when(remove('ghcr.io:5000')).refuses('not_found');
    credentials(stored('ghcr.io'), removed('ghcr.io')).when(remove('ghcr.io')).refuses('not_found');
  });

  it('keep the time at which they were made when they are replaced', () => {
    const events = [stored('a.example'), stored('a.example', 'registry', new Date(NOON.getTime() + 1_000))];
    expect(fold(sourceCredentialsDecider, events).get('registry a.example')?.createdAt).toBe(NOON.toISOString());
  });

  it('are 50 at most', () => {
    const full = Array.from({ length: SOURCE_CREDENTIALS_MAX }, (_, index) => stored(`a${index}.example`));
    credentials(...full)
      .when(store('b.example'))
      .refuses('invalid_request');
    credentials(...full)
      .when(store('a0.example'))
      .then(stored('a0.example'));
  });
});

describe('the host of a credential', () => {
  it.each([
    ['registry', 'ghcr.io', 'ghcr.io'],
    ['registry', 'GHCR.io:443', 'ghcr.io:443'],
    ['registry', 'index.docker.io', 'docker.io'],
    ['git', 'index.docker.io', 'index.docker.io'],
    ['git', '127.0.0.1:3000', '127.0.0.1:3000'],
    ['registry', '[::1]:5000', '[::1]:5000'],
    ['git', 'localhost', 'localhost'],
  ] as const)('of kind %s given as %s is %s', (kind, text, host) => expect(canonicalHost(kind, text)).toBe(host));

  it.each([
    '',
    'a b',
    'https://a.example',
    'a.example/x',
    'user@a.example',
    'a..b',
    '-a.example',
    'a.example:',
    'a.example:0',
    'a:65536',
    '[x]',
    'a_b',
    '::1',
    'é.example',
  ])('is not %j', (text) => expect(canonicalHost('registry', text)).toBeNull());

  it('has one spelling, in which an image’s registry is found whatever the reference’s spelling', () => {
    const host = fc.constantFrom(
      'ghcr.io',
      'GHCR.IO',
      'r.example:5000',
      'R.Example:5000',
      '127.0.0.1:5000',
      'localhost',
      '[::1]:5000',
      'docker.io',
    );
    fc.assert(
      fc.property(host, (text) => {
        const canonical = canonicalHost('registry', text);
        expect(canonicalHost('registry', canonical ?? '')).toBe(canonical);
        const reference = parseImageReference(`${text}/team/agent:1`);
        expect(reference && registryHost(reference)).toBe(canonical);
      }),
    );
    for (const name of ['nginx', 'team/agent', 'index.docker.io/nginx']) {
      const reference = parseImageReference(name);
      expect(reference && registryHost(reference)).toBe('docker.io');
    }
  });
});

describe('a user name', () => {
  it.each(['ci', 'oauth2accesstoken', '$user', 'a@b.example', 'x'.repeat(255)])('may be %s', (name) =>
    expect(usernameProblem(name)).toBeNull(),
  );
  it.each(['', 'a:b', 'a\nb', 'a\0b', 'x'.repeat(256)])('may not be %j', (name) => expect(usernameProblem(name)).not.toBeNull());
});
