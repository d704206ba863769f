import type { Caller } from '../../context/caller.ts';

/**
 * Verifies credentials for the gate; `api-keys` and `accounts` implement it. The methods return null if the credential is not valid, for
 * whatever reason. `isCurrent` is true if everything that was in the log when the request came has been heard here.
 */
export abstract class CredentialVerifier {
  abstract verifyApiKey(rawKey: string, isCurrent: boolean): Promise<Caller | null>;
  abstract verifySession(token: string): Promise<Caller | null>;
}
