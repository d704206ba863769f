import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, readJson, writeJson } from './atomic-file.ts';
import { killSession, liveness, markOf, ownMark, pidsWith, type ProcessMark } from './processes.ts';
import { endTree, isKeeper, signalTree } from './process-trees.ts';

/** The environment variable of a command that holds the id of its record. */
const RECORD_VARIABLE = 'MOORING_COMMAND_RECORD';
/** The prefix of the records of keepers, which hold long-running commands and sessions. */
const KEEPER = 'keeper-';

interface CommandRecord {
  /** Null until the command is known to run. A command whose service died before that is found through its environment. */
  command: ProcessMark | null;
  /** The service that waits for the result; null if the process outlives the service. */
  owner: ProcessMark | null;
}

/** Records the running commands and shells of a container, so that they end with it and with the service that started them. */
export class CommandRecords {
  private readonly folder: string;

  constructor(containerFolder: string) {
    this.folder = join(containerFolder, 'commands');
  }

  /** Records a command that is about to start, and returns the variables that identify it in its environment. */
  async announce(id: string): Promise<Record<string, string>> {
    await this.makeFolder();
    await this.write(id, null, ownMark());
    return { [RECORD_VARIABLE]: id };
  }

  /** Records a keeper that is about to start, and returns the variables that identify it in its environment. */
  async announceKeeper(): Promise<{ id: string; variables: Record<string, string> }> {
    const id = KEEPER + randomUUID();
    await this.makeFolder();
    await this.write(id, null, null);
    return { id, variables: { [RECORD_VARIABLE]: id } };
  }

  async addKeeper(id: string, pid: number | undefined): Promise<void> {
    await this.write(id, pid === undefined ? null : markOf(pid), null);
  }

  /** Returns the running keeper; null if there is none. */
  async keeper(): Promise<ProcessMark | null> {
    for (const { pids } of await this.keepers()) for (const pid of pids) return markOf(pid);
    return null;
  }

  /** Signals the keepers and everything that they started. */
  async signalKept(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    for (const { pids } of await this.keepers()) for (const pid of pids) signalTree(pid, signal);
  }

  private async keepers(): Promise<{ name: string; pids: number[] }[]> {
    const found: { name: string; pids: number[] }[] = [];
    for (const name of (await this.names()).filter((each) => each.startsWith(KEEPER))) {
      const record = await readJson<CommandRecord>(join(this.folder, name));
      if (record !== null) found.push({ name, pids: keepersOf(record, name.slice(0, -'.json'.length)) });
    }
    return found;
  }

  private async makeFolder(): Promise<void> {
    // Not recursive: a container that was removed meanwhile must not reappear as an empty folder.
    await mkdir(this.folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }

  /** Records the process of an announced command. */
  async add(id: string, command: ProcessMark): Promise<void> {
    await this.write(id, command, ownMark());
  }

  async remove(id: string): Promise<void> {
    await rm(this.path(id), { force: true });
  }

  async killAll(): Promise<void> {
    await this.killWhere(() => true);
    for (const { name, pids } of await this.keepers()) {
      for (const pid of pids) await endTree(pid);
      await rm(join(this.folder, name), { force: true });
    }
  }

  /** Kills the commands whose service is gone, since nothing enforces their deadline any more. */
  async killOrphans(): Promise<void> {
    await this.killWhere((record) => record.owner !== null && liveness(record.owner) === 'gone');
  }

  private async killWhere(condition: (record: CommandRecord) => boolean): Promise<void> {
    for (const name of (await this.names()).filter((each) => !each.startsWith(KEEPER))) {
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

  private async write(id: string, command: ProcessMark | null, owner: ProcessMark | null): Promise<void> {
    await writeJson(this.path(id), { command, owner } satisfies CommandRecord);
  }

  private path(id: string): string {
    return join(this.folder, `${id}.json`);
  }
}

function pidsOf({ command }: CommandRecord, id: string): number[] {
  if (command === null) return pidsWith(RECORD_VARIABLE, id);
  return liveness(command) === 'gone' ? [] : [command.pid];
}

/** Returns the keepers of the record, without the processes that they started, which inherit the variable. */
function keepersOf(record: CommandRecord, id: string): number[] {
  if (record.command !== null) return pidsOf(record, id);
  return pidsWith(RECORD_VARIABLE, id).filter((pid) => isKeeper(pid));
}
