import { Injectable } from '@nestjs/common';

import { type Sealed, Keyring } from '../../crypto/keyring.ts';
import { Database } from '../../postgres/database/database.ts';

/** A content that no event refers to is deleted after this time, as a PostgreSQL interval. Its request ended before the event was stored. */
const UNREFERENCED_FOR = '1 hour';

/** Stores the contents of custom files outside the log, encrypted with the agent's data key. */
@Injectable()
export class CustomFileContents {
  constructor(
    private readonly database: Database,
    private readonly keyring: Keyring,
  ) {}

  async store(agentId: string, contentId: string, content: string): Promise<void> {
    const sealed = await this.keyring.seal(agentId, contextOf(contentId), content);
    await this.database.query('insert into custom_file_contents (agent_id, content_id, sealed) values ($1, $2, $3)', [
      agentId,
      contentId,
      JSON.stringify(sealed),
    ]);
  }

  /** Returns the content, or null if it was replaced, removed, or destroyed with its agent. */
  async read(agentId: string, contentId: string): Promise<string | null> {
    const [row] = await this.database.query<{ sealed: Sealed }>(
      'select sealed from custom_file_contents where agent_id = $1 and content_id = $2',
      [agentId, contentId],
    );
    return row === undefined ? null : this.keyring.open(agentId, contextOf(contentId), row.sealed);
  }

  async remove(agentId: string, contentIds: readonly string[]): Promise<void> {
    if (contentIds.length === 0) return;
    await this.database.query('delete from custom_file_contents where agent_id = $1 and content_id = any($2)', [agentId, contentIds]);
  }

  /** Deletes the contents that requests left which ended between storing the content and its event. */
  async removeUnreferenced(agentId: string, named: readonly string[]): Promise<void> {
    await this.database.query(
      `delete from custom_file_contents
        where agent_id = $1 and content_id <> all($2) and stored_at < now() - interval '${UNREFERENCED_FOR}'`,
      [agentId, named],
    );
  }

  /** Deletes the contents of all files of a deleted agent. */
  async removeAll(agentId: string): Promise<void> {
    await this.database.query('delete from custom_file_contents where agent_id = $1', [agentId]);
  }
}

/** Returns the context that binds an encrypted content to its row. */
function contextOf(contentId: string): string {
  return `custom file ${contentId}`;
}
