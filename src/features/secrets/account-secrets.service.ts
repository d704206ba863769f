import { Injectable } from '@nestjs/common';

import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { changesSince } from '../../eventsourcing/log/changes-since.ts';
import { EventStore, type Position, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import type { SecretEvent } from './secrets.events.ts';
import { type Secrets, secretsDecider, secretsStream, unknownSecret } from './secrets.decider.ts';

/** Returns the context that binds an encrypted value to its secret, so that it can't be decrypted under another name. */
export function secretContext(name: string): string {
  return `secret ${name}`;
}

/** Loads the secrets of accounts, and decrypts them for the containers of the account's agents only. */
@Injectable()
export class AccountSecrets {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly events: EventStore,
  ) {}

  /** Returns the account's secrets by name, with their values encrypted. */
  async of(accountId: string): Promise<Secrets> {
    return (await this.aggregates.load(secretsStream(accountId), secretsDecider)).state;
  }

  /** Throws `secret_not_found` if the account lacks one of the secrets. `field` is the caller's name of the field with the reference. */
  async refuseUnknown(accountId: string, names: readonly string[], field: string): Promise<void> {
    if (names.length === 0) return;
    const secrets = await this.of(accountId);
    const unknown = names.find((name) => !secrets.has(name));
    if (unknown !== undefined) throw unknownSecret(field, unknown);
  }

  /** Returns the decrypted values of the secrets that exist. They must not enter a response, an event or a log line. */
  async open(accountId: string, names: readonly string[]): Promise<Map<string, string>> {
    const opened = new Map<string, string>();
    if (names.length === 0) return opened;
    const secrets = await this.of(accountId);
    for (const name of new Set(names)) {
      const secret = secrets.get(name);
      const value = secret === undefined ? null : await this.keyring.open(accountId, secretContext(name), secret.sealed);
      if (value !== null) opened.set(name, value);
    }
    return opened;
  }

  /**
   * Returns the values of these secrets that were stored since that position, and those that they replaced; null if they are not among the
   * account's last 10,000 events.
   */
  async openSince(accountId: string, names: ReadonlySet<string>, since: Position): Promise<string[] | null> {
    if (names.size === 0) return [];
    const keyOf = (event: StoredEvent): string | null => {
      const { type, data } = event as unknown as SecretEvent;
      return (type === 'SecretStored' || type === 'SecretRemoved') && names.has(data.name) ? data.name : null;
    };
    const stream = this.events.readStream(secretsStream(accountId), { backwards: true });
    const changes = await changesSince(stream, keyOf, ({ position }) => !(since < position));
    if (changes === null) return null;
    const values: (string | null)[] = [];
    for (const event of changes.events) {
      const { type, data } = event as unknown as SecretEvent;
      if (type === 'SecretStored') values.push(await this.keyring.open(accountId, secretContext(data.name), data.value));
    }
    return values.filter((value) => value !== null);
  }
}
