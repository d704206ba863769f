import { Column, Entity, JoinColumn, OneToOne, PrimaryColumn } from 'typeorm';

/** The address with which an account's holder signs in; `Credentials` writes it, not a projection. */
@Entity('account_credentials', { synchronize: false })
export class AccountCredentialRow {
  @PrimaryColumn('text') account_id: string;
  @Column('text') email: string;
}

/** One account, as the projection `accounts` stores it. */
@Entity('accounts', { synchronize: false })
export class AccountRow {
  @PrimaryColumn('text') account_id: string;
  @Column('text') name: string;
  @Column('text') role: 'admin' | 'member';
  @Column('text', { nullable: true }) plan_name: string | null;
  @Column('integer', { nullable: true }) plan_seats: number | null;
  @Column('boolean') payment_method: boolean;
  @Column('integer') seats_used: number;
  @Column('timestamptz') created_at: Date;

  @OneToOne(() => AccountCredentialRow, { createForeignKeyConstraints: false, nullable: true })
  @JoinColumn({ name: 'account_id', referencedColumnName: 'account_id' })
  credential: AccountCredentialRow | null;
}
