import { Column, Entity, JoinColumn, OneToOne, PrimaryColumn } from 'typeorm';

import type { Scope } from '../platform/context/caller.ts';

/** The time at which the key was last used, to the minute; `ApiKeysVerifier` writes it, not a projection. */
@Entity('api_key_uses', { synchronize: false })
export class ApiKeyUseRow {
  @PrimaryColumn('text') key_id: string;
  @Column('timestamptz') last_used_at: Date;
}

/** One API key, as the projection `api_keys` stores it. */
@Entity('api_keys', { synchronize: false })
export class ApiKeyRow {
  @PrimaryColumn('text') key_id: string;
  @Column('text') account_id: string;
  @Column('text') name: string;
  @Column('text') prefix: string;
  /** The SHA-256 of the key, in hex. */
  @Column('text') sha256: string;
  @Column('json') scopes: Scope[];
  @Column('timestamptz', { nullable: true }) expires_at: Date | null;
  @Column('timestamptz', { nullable: true }) revoked_at: Date | null;
  @Column('timestamptz') created_at: Date;

  @OneToOne(() => ApiKeyUseRow, { createForeignKeyConstraints: false, nullable: true })
  @JoinColumn({ name: 'key_id', referencedColumnName: 'key_id' })
  use: ApiKeyUseRow | null;
}
