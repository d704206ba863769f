import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';

import { agentStream } from '../agents/index.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { CustomFileContents } from './custom-file-contents.service.ts';
import { absolutePathOf, type FileLocation } from './file-locations.rules.ts';
import { type CustomFile, type CustomFileSet, customFilesDecider, ownedFiles } from './custom-files.decider.ts';

/** A file as a caller gives it. */
export interface CustomFileInput extends FileLocation {
  content: string;
  executable: boolean;
  runOnDeploy: boolean;
}

/** An agent's custom files, which are put into each of its new containers. */
@Injectable()
export class CustomFiles {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly contents: CustomFileContents,
  ) {}

  /** Returns the files of the account's agent in their order. Throws `agent_not_found`. */
  async list(accountId: string, agentId: string): Promise<CustomFile[]> {
    return [...ownedFiles(await this.load(agentId), accountId).values()];
  }

  /**
   * Adds the files to those of the agent. A file whose path exists replaces the file there. Returns the number of files of the agent
   * afterwards. Throws `agent_not_found`, `invalid_request`.
   */
  async store(context: CommandContext, accountId: string, agentId: string, given: CustomFileInput[]): Promise<number> {
    const files = given.map(({ content, ...file }) => ({ ...file, size: Buffer.byteLength(content), contentId: uuidv7() }));
    const command = { type: 'StoreCustomFiles' as const, accountId, files };
    // The request is checked first: a refused one must not leave contents behind, and another account must not create a data key for this
    // agent.
    customFilesDecider.decide(command, await this.load(agentId), new Date());
    const ids = files.map(({ contentId }) => contentId);
    try {
      for (const [index, { content }] of given.entries()) await this.contents.store(agentId, ids[index] as string, content);
      const { before, state } = await this.aggregates.execute(agentStream(agentId), customFilesDecider, command, context);
      await this.deleteReplaced(agentId, before, state);
      return state.files.size;
    } catch (error) {
      if (error instanceof ProblemError) await this.contents.remove(agentId, ids);
      throw error;
    }
  }

  /** Removes the file from the agent's next container. Throws `agent_not_found`, `file_not_found`. */
  async remove(context: CommandContext, accountId: string, agentId: string, location: FileLocation): Promise<void> {
    const command = { type: 'RemoveCustomFile' as const, accountId, location };
    const { before, state } = await this.aggregates.execute(agentStream(agentId), customFilesDecider, command, context);
    await this.deleteReplaced(agentId, before, state);
  }

  /** Returns the current files of an agent, for its container only. */
  async of(agentId: string): Promise<CustomFile[]> {
    return [...(await this.load(agentId)).files.values()];
  }

  /** Returns the content of the file, or of a file that has replaced it meanwhile; null if it was removed. */
  async contentOf(agentId: string, file: CustomFile): Promise<string | null> {
    const content = await this.contents.read(agentId, file.contentId);
    if (content !== null) return content;
    const present = (await this.load(agentId)).files.get(absolutePathOf(file));
    return present === undefined ? null : this.contents.read(agentId, present.contentId);
  }

  /** Deletes the contents of a deleted agent. May be repeated. */
  deleteAll(agentId: string): Promise<void> {
    return this.contents.removeAll(agentId);
  }

  private async load(agentId: string): Promise<CustomFileSet> {
    return (await this.aggregates.load(agentStream(agentId), customFilesDecider)).state;
  }

  private async deleteReplaced(agentId: string, before: CustomFileSet, after: CustomFileSet): Promise<void> {
    const named = [...after.files.values()].map(({ contentId }) => contentId);
    const replaced = [...before.files.values()].map(({ contentId }) => contentId).filter((id) => !named.includes(id));
    await this.contents.remove(agentId, replaced);
    await this.contents.removeUnreferenced(agentId, named);
  }
}
