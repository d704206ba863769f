import { Column, Entity, JoinColumn, OneToOne, PrimaryColumn } from 'typeorm';

import type { Agent } from './agent-state.decider.ts';

/** When the agent was last used; written by `Activity`, not from events. */
@Entity('agent_activity', { synchronize: false })
export class AgentActivityRow {
  @PrimaryColumn('text') agent_id: string;
  @Column('timestamptz') last_active_at: Date;
}

/** One agent that is not deleted, as the projection `agents` keeps it. */
@Entity('agents', { synchronize: false })
export class AgentRow {
  @PrimaryColumn('text') agent_id: string;
  @Column('text') account_id: string;
  @Column('text', { nullable: true }) external_id: string | null;
  @Column('text') status: string;
  @Column('text', { nullable: true }) sleep_depth: string | null;
  /** The decider's own state: what the other columns are made from. */
  @Column('json') state: Agent;
  /** Of the agent's stream. */
  @Column('integer') revision: number;
  @Column('timestamptz') created_at: Date;
  @Column('timestamptz') updated_at: Date;

  @OneToOne(() => AgentActivityRow, { createForeignKeyConstraints: false, nullable: true })
  @JoinColumn({ name: 'agent_id', referencedColumnName: 'agent_id' })
  activity: AgentActivityRow | null;
}

/** What of an agent answers show. */
export type ShownAgent = Pick<AgentRow, 'agent_id' | 'state' | 'revision' | 'created_at' | 'updated_at' | 'activity'>;
