import type { AgentEvent } from '../agents/index.ts';
import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider, Json } from '../../eventsourcing/event-store/event-definition.ts';
import { absolutePathOf, type FileLocation, pathProblem, locationProblem, targetDirProblem } from './file-locations.rules.ts';
import type { CustomFileEvent } from './custom-files.events.ts';

/** The most custom files of one agent. */
export const CUSTOM_FILES_MAX = 100;
/** The size of a custom file at most, in bytes of UTF-8. */
export const CUSTOM_FILE_BYTES_MAX = 1_048_576;

/** A custom file without its content. */
export interface CustomFile extends FileLocation {
  size: number;
  executable: boolean;
  runOnDeploy: boolean;
  contentId: string;
  storedAt: string;
}

export interface CustomFileSet {
  /** The account of the agent; null if the agent does not exist or is deleted. */
  accountId: string | null;
  /** The files by absolute path, in the order in which the paths were first stored. */
  files: ReadonlyMap<string, CustomFile>;
}

export type CustomFileCommand =
  /** Adds the files. A file whose absolute path exists replaces the file there, and keeps its position in the order. */
  | { type: 'StoreCustomFiles'; accountId: string; files: Omit<CustomFile, 'storedAt'>[] }
  | { type: 'RemoveCustomFile'; accountId: string; location: FileLocation };

/** The rules of an agent's custom files. Their state is computed from the agent's stream, separately from the state of its lifecycle. */
export const customFilesDecider: Decider<CustomFileSet, CustomFileCommand, CustomFileEvent> = {
  initialState: () => ({ accountId: null, files: new Map() }),
  decide,
  evolve,
  snapshot: {
    name: 'custom-files',
    version: 1,
    subject: (_, id) => id,
    toJson: ({ accountId, files }) => ({ accountId, files: [...files] as unknown as Json }),
    fromJson: (json) => {
      const { accountId, files } = json as unknown as { accountId: string | null; files: [string, CustomFile][] };
      return { accountId, files: new Map(files) };
    },
  },
};

/** Returns the files if they belong to the account's agent. Throws `agent_not_found`. */
export function ownedFiles({ accountId: owner, files }: CustomFileSet, accountId: string): CustomFileSet['files'] {
  if (owner !== accountId) throw new ProblemError('agent_not_found', 'There is no such agent.');
  return files;
}

/** Returns whether the file is run at each deployment. */
export function isScript({ path, runOnDeploy }: CustomFile): boolean {
  return runOnDeploy && path.endsWith('.sh');
}

function decide(command: CustomFileCommand, state: CustomFileSet, now: Date): CustomFileEvent[] {
  const standing = ownedFiles(state, command.accountId);
  if (command.type === 'RemoveCustomFile') {
    const { path, targetDir: target_dir } = command.location;
    if (!standing.has(absolutePathOf(command.location))) throw new ProblemError('file_not_found', 'The agent has no such custom file.');
    return [{ type: 'CustomFileRemoved', data: { path, target_dir } }];
  }
  refuseBadLocations(command.files, standing);
  const files = command.files.map(
    ({ path, targetDir: target_dir, size, executable, runOnDeploy: run_on_deploy, contentId: content_id }) => ({
      path,
      target_dir,
      size,
      executable,
      run_on_deploy,
      content_id,
    }),
  );
  return files.length === 0 ? [] : [{ type: 'CustomFilesStored', data: { files, stored_at: now.toISOString() } }];
}

function refuseBadLocations(given: Omit<CustomFile, 'storedAt'>[], standing: CustomFileSet['files']): void {
  const paths = new Set(standing.keys());
  const seen = new Set<string>();
  given.forEach((file, index) => {
    const refuse = (member: string, problem: string | null) => {
      if (problem !== null) throw invalidField(`files[${index}].${member}`, problem);
    };
    refuse('path', pathProblem(file.path));
    refuse('target_dir', targetDirProblem(file.targetDir));
    refuse('path', locationProblem(file));
    refuse('content', file.size > CUSTOM_FILE_BYTES_MAX ? `must have at most ${CUSTOM_FILE_BYTES_MAX} bytes` : null);
    const path = absolutePathOf(file);
    refuse('path', seen.has(path) ? 'is given twice' : null);
    refuse('path', directoryProblem(path, paths));
    seen.add(path);
    paths.add(path);
  });
  if (paths.size > CUSTOM_FILES_MAX) throw invalidField('files', `an agent has at most ${CUSTOM_FILES_MAX} custom files`);
}

/** Returns what is wrong if one of the paths would be both a file and a directory, or null. */
function directoryProblem(path: string, others: ReadonlySet<string>): string | null {
  for (const other of others) {
    if (other.startsWith(`${path}/`)) return 'is a directory of another custom file';
    if (path.startsWith(`${other}/`)) return 'has another custom file as a directory';
  }
  return null;
}

function evolve(state: CustomFileSet, event: CustomFileEvent | AgentEvent): CustomFileSet {
  switch (event.type) {
    case 'AgentProvisioned':
      return { ...state, accountId: event.data.account_id };
    case 'AgentDeletionRequested':
      return { accountId: null, files: new Map() };
    case 'CustomFilesStored': {
      const files = new Map(state.files);
      for (const { path, target_dir: targetDir, size, executable, run_on_deploy: runOnDeploy, content_id: contentId } of event.data.files) {
        const file = { path, targetDir, size, executable, runOnDeploy, contentId, storedAt: event.data.stored_at };
        files.set(absolutePathOf(file), file);
      }
      return { ...state, files };
    }
    case 'CustomFileRemoved': {
      const files = new Map(state.files);
      files.delete(absolutePathOf({ path: event.data.path, targetDir: event.data.target_dir }));
      return { ...state, files };
    }
    default:
      // The stream also contains the agent's other events.
      event satisfies AgentEvent;
      return state;
  }
}
