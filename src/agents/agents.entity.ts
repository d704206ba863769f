import { Column, Entity, JoinColumn, OneToOne, PrimaryColumn } from 'typeorm';

import type { Agent } from './aggregate/agent-state.decider.ts';

/** The time of the agent's last use. `Activity` writes it; it does not come from events. */
@Entity('agent_activity', { synchronize: false })
export class AgentActivityRow {
  @PrimaryColumn('text') agent_id: string;
  @Column('timestamptz') last_active_at: Date;
}

/** A row of the projection `agents`: one agent that is not deleted. */
@Entity('agents', { synchronize: false })
export class AgentRow {
  @PrimaryColumn('text') agent_id: string;
  @Column('text') account_id: string;
  @Column('text', { nullable: true }) external_id: string | null;
  @Column('text') status: string;
  @Column('text', { nullable: true }) sleep_depth: string | null;
  /** The decider's state, from which the other columns are derived. */
  @Column('json') state: Agent;
  /** The revision of the agent's stream. */
  @Column('integer') revision: number;
  @Column('timestamptz') created_at: Date;
  @Column('timestamptz') updated_at: Date;

  @OneToOne(() => AgentActivityRow, { createForeignKeyConstraints: false, nullable: true })
  @JoinColumn({ name: 'agent_id', referencedColumnName: 'agent_id' })
  activity: AgentActivityRow | null;
}

/** The columns of an agent that answers show. */
export type ShownAgent = Pick<AgentRow, 'agent_id' | 'state' | 'revision' | 'created_at' | 'updated_at' | 'activity'>;
