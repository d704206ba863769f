import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('conversations', { synchronize: false })
export class ConversationRow {
  @PrimaryColumn('text') conversation_id: string;
  @Column('text') agent_id: string;
  @Column('text') account_id: string;
  @Column('text') channel: string;
  @Column('integer') messages: number;
  @Column('integer') pending: number;
  @Column('timestamptz') created_at: Date;
  @Column('timestamptz') updated_at: Date;
}
