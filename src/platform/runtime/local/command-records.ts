import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, readJson, writeJson } from './atomic-file.ts';
import { killSession, liveness, ownMark, pidsWith, type ProcessMark } from './processes.ts';

/** The variable in the environment of a command that holds the id of its record. */
const RECORD_VARIABLE = 'MOORING_COMMAND_RECORD';

interface CommandRecord {
  /** Null until the command is known to run. A command whose service died before that is found by its environment. */
  command: ProcessMark | null;
  /** The service that waits for the result. */
  owner: ProcessMark;
}

/** Records the running commands and shells of a container, so that they end with it, and with the service that started them. */
export class CommandRecords {
  private readonly folder: string;

  constructor(containerFolder: string) {
    this.folder = join(containerFolder, 'commands');
  }

  /** Records a command that is about to start, and returns the variables that its environment must have. */
  async announce(id: string): Promise<Record<string, string>> {
    // This is not recursive: a container that was removed meanwhile must not come back as an empty folder.
    await mkdir(this.folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await this.write(id, null);
    return { [RECORD_VARIABLE]: id };
  }

  /** Records the process of an announced command. */
  async add(id: string, command: ProcessMark): Promise<void> {
    await this.write(id, command);
  }

  async forget(id: string): Promise<void> {
    await rm(this.path(id), { force: true });
  }

  async killAll(): Promise<void> {
    await this.killWhere(() => true);
  }

  /** Kills the commands whose service is gone, since nothing keeps their deadline any more. */
  async killOrphans(): Promise<void> {
    await this.killWhere((record) => liveness(record.owner) === 'gone');
  }

  private async killWhere(condition: (record: CommandRecord) => boolean): Promise<void> {
    for (const name of await this.names()) {
      const record = await readJson<CommandRecord>(join(this.folder, name));
      if (record === null || !condition(record)) continue;
      for (const pid of pidsOf(record, name.slice(0, -'.json'.length))) killSession(pid);
      await rm(join(this.folder, name), { force: true });
    }
  }

  private async names(): Promise<string[]> {
    try {
      return (await readdir(this.folder)).filter((name) => name.endsWith('.json'));
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }

  private async write(id: string, command: ProcessMark | null): Promise<void> {
    await writeJson(this.path(id), { command, owner: ownMark() } satisfies CommandRecord);
  }

  private path(id: string): string {
    return join(this.folder, `${id}.json`);
  }
}

function pidsOf({ command }: CommandRecord, id: string): number[] {
  if (command === null) return pidsWith(RECORD_VARIABLE, id);
  return liveness(command) === 'gone' ? [] : [command.pid];
}
