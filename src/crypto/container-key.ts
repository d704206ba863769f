import type { KeyObject } from 'node:crypto';

import type { Keyring } from './keyring.ts';

/** The subject of the data key that belongs to the installation itself. It is never shredded. */
export const INSTALLATION_SUBJECT = 'installation';

/**
 * Returns the key by which the installation recognises its containers on an engine. The first service on the database creates it, and
 * neither a rotation of the master key nor a restore changes it.
 */
export function containerKey(keyring: Keyring): Promise<KeyObject> {
  return keyring.macKey(INSTALLATION_SUBJECT, 'containers');
}
