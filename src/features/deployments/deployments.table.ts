import type { ReleaseRun } from '../agents/index.ts';
import { type ReadRow, typed } from '../../postgres/database/table.ts';
import type { ProjectionTable } from '../../eventsourcing/projections/projection.ts';

export const deploymentsTable = {
  key: 'id',
  columns: {
    id: 'text collate "C" not null',
    agent_id: 'text collate "C" not null',
    status: 'text not null',
    source: 'text not null',
    branch: 'text',
    commit_sha: 'text',
    image_name: 'text',
    /** The image, pinned. */
    image: 'text',
    /** The command of the image's containers, in exec form; null until the image is resolved. */
    command: 'text[]',
    /** The run settings that were said for it; empty if none was, and until the image is resolved. */
    run: typed<ReleaseRun>('json not null'),
    /** The start timeout that was said for it, or by its template. */
    start_timeout_seconds: 'integer',
    repo_url: 'text',
    template_id: 'text',
    message: 'text',
    triggered_by: 'text not null',
    started_at: 'timestamptz(3) not null',
    completed_at: 'timestamptz(3)',
  },
  indexes: { by_agent: '(agent_id, started_at desc, id desc)' },
} as const satisfies ProjectionTable;

export type DeploymentRow = ReadRow<typeof deploymentsTable>;
