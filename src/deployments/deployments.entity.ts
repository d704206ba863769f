import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('deployments', { synchronize: false })
export class DeploymentRow {
  @PrimaryColumn('text') id: string;
  @Column('text') agent_id: string;
  @Column('text') status: string;
  @Column('text') source: string;
  @Column('text', { nullable: true }) branch: string | null;
  @Column('text', { nullable: true }) commit_sha: string | null;
  @Column('text', { nullable: true }) image_name: string | null;
  @Column('text', { nullable: true }) image: string | null;
  @Column('text', { nullable: true }) message: string | null;
  @Column('text') triggered_by: string;
  @Column('timestamptz') started_at: Date;
  @Column('timestamptz', { nullable: true }) completed_at: Date | null;
}
