import { Injectable } from '@nestjs/common';

import { Keyring, type Sealed } from '../../../crypto/keyring.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';

/**
 * Encrypts the variables of computers, each with the computer's data key, which its deletion destroys. They are decrypted for the container
 * only.
 */
@Injectable()
export class ComputerVariables {
  constructor(private readonly keyring: Keyring) {}

  seal(computerId: string, variables: Record<string, string>): Promise<Record<string, Sealed>>;
  /** Encrypts the values; null stays null. Throws if the computer was deleted. */
  seal(computerId: string, variables: Record<string, string | null>): Promise<Record<string, Sealed | null>>;
  async seal(computerId: string, variables: Record<string, string | null>): Promise<Record<string, Sealed | null>> {
    const sealed: [string, Sealed | null][] = [];
    for (const [key, value] of Object.entries(variables))
      sealed.push([key, value === null ? null : await this.keyring.seal(computerSandbox(computerId), contextOf(key), value)]);
    return Object.fromEntries(sealed);
  }

  /** Returns the decrypted variables; none if the computer's key was destroyed. They must not enter a response, an event or a log line. */
  async open(computerId: string, { variables }: Computer): Promise<Record<string, string>> {
    const opened: [string, string][] = [];
    for (const [key, sealed] of Object.entries(variables)) {
      const value = await this.keyring.open(computerSandbox(computerId), contextOf(key), sealed);
      if (value !== null) opened.push([key, value]);
    }
    return Object.fromEntries(opened);
  }
}

/** Returns the context that binds an encrypted value to its variable, so that it can't be decrypted under another name. */
function contextOf(key: string): string {
  return `variable ${key}`;
}
