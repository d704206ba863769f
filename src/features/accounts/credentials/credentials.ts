import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { hashPassword, verifyPassword } from './passwords.ts';

export interface Credential {
  accountId: string;
  /** The value is true if this call made the credential. */
  isNew: boolean;
  /** The value is true if the credential is less than a minute old, so that the account may still be being opened. */
  isRecent: boolean;
}

/** Stores the addresses and passwords of accounts. They have a table of their own, because neither may enter an event. */
@Injectable()
export class Credentials {
  constructor(private readonly database: Database) {}

  /** Assigns the address to the account unless an account has it already. Returns the owner. */
  async claim(email: string, accountId: string, password: string): Promise<Credential | null> {
    const hash = await hashPassword(password);
    const made = await this.database.query(
      'insert into account_credentials (account_id, email, password) values ($1, $2, $3) on conflict do nothing returning 1',
      [accountId, email, hash],
    );
    const [row] = await this.database.query<{ account_id: string; young: boolean }>(
      `select account_id, created_at > now() - interval '1 minute' as young from account_credentials where email = $1`,
      [email],
    );
    return row ? { accountId: row.account_id, isNew: made.length > 0, isRecent: row.young } : null;
  }

  async setPassword(accountId: string, password: string): Promise<void> {
    await this.database.query('update account_credentials set password = $2, created_at = now() where account_id = $1', [
      accountId,
      await hashPassword(password),
    ]);
  }

  /** Returns the address of the account's holder, or null. */
  async emailOf(accountId: string): Promise<string | null> {
    const [row] = await this.database.query<{ email: string }>('select email from account_credentials where account_id = $1', [accountId]);
    return row?.email ?? null;
  }

  /** Returns the account that the address and the password belong to, or null. It takes the same time either way. */
  async verify(email: string, password: string): Promise<string | null> {
    const [row] = await this.database.query<{ account_id: string; password: string }>(
      'select account_id, password from account_credentials where email = $1',
      [email],
    );
    return (await verifyPassword(password, row?.password ?? null)) ? (row?.account_id ?? null) : null;
  }
}
