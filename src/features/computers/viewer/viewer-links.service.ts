import type { KeyObject } from 'node:crypto';

import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import { INSTALLATION_SUBJECT } from '../../../crypto/container-key.ts';
import { Keyring } from '../../../crypto/keyring.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { readToken, signToken, type ViewerLink } from './viewer-token.ts';

/** Makes and verifies the links of sessions, without any store. */
@Injectable()
export class ViewerLinks implements OnModuleInit {
  private key: KeyObject | null = null;

  constructor(
    private readonly config: Config,
    private readonly keyring: Keyring,
  ) {}

  async onModuleInit(): Promise<void> {
    this.key = await this.keyring.macKey(INSTALLATION_SUBJECT, 'viewer');
  }

  /** Returns the address at which a browser opens the session. `origin` is the one at which the caller reached the service. */
  urlOf(link: ViewerLink, origin: string): string {
    return `${this.config.baseUrl ?? origin}/viewer/${signToken(link, this.secret)}`;
  }

  /** Returns the content of the token, even if it has expired; null if the installation did not make it. */
  read(token: string): ViewerLink | null {
    return readToken(token, this.secret);
  }

  /** Returns the content of the token. Throws `unauthenticated` if the installation did not make it. */
  require(token: string): ViewerLink {
    const link = this.read(token);
    if (link === null) throw new ProblemError('unauthenticated', 'The link is not valid. Check that it was copied as a whole.');
    return link;
  }

  private get secret(): KeyObject {
    if (this.key === null) throw new Error('the key of links is not there before the application has started');
    return this.key;
  }
}
