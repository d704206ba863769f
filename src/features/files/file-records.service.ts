import { Injectable, Logger } from '@nestjs/common';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import { Keyring, type Sealed } from '../../crypto/keyring.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { FileRefused } from '../../runtime/files.ts';
import { filesDecider, type FileCommand, type FileOutcome } from './files.decider.ts';
import type { FileChange, FileChangeFailure } from './files.events.ts';

/** A change is certainly over this long after its deadline, in ms. */
const END_MARGIN_MS = 10_000;

/** A call that is recorded. */
export interface RecordedCall {
  context: CommandContext;
  agentId: string;
  /** The id of the call, which is the same for every attempt under one `Idempotency-Key`. */
  callId: string;
  /** The signal that aborts when the caller has gone. */
  signal: AbortSignal;
}

/** A change as it is recorded before it is carried out. */
interface Intent {
  change: FileChange;
  /** The paths that the caller named. */
  paths: object;
  /** The timeout of the change, in ms. */
  timeoutMs: number;
}

/** Records what callers do with the files of agents. */
@Injectable()
export class FileRecords {
  private readonly logger = new Logger('Files');

  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
  ) {}

  /**
   * Records the start of the change, carries it out, and records its end. Throws what the work throws; `rate_limited` if too many changes
   * are running, and `invalid_state` if this one was started before.
   */
  async recordAround<T>(call: RecordedCall, intent: Intent, work: () => Promise<{ answer: T; outcome: FileOutcome }>): Promise<T> {
    const { agentId, callId: changeId } = call;
    const endsBy = new Date(Date.now() + intent.timeoutMs + END_MARGIN_MS).toISOString();
    const paths = await this.seal(call, 'asked', intent.paths);
    await this.execute(call, { type: 'StartFileChange', agentId, changeId, change: intent.change, paths, endsBy });
    try {
      const { answer, outcome } = await work();
      await this.execute(call, { type: 'EndFileChange', changeId, outcome }).catch((error: unknown) => this.logUnrecorded(error));
      return answer;
    } catch (error) {
      const failure = failureOf(error, call.signal);
      await this.execute(call, { type: 'FailFileChange', changeId, failure }).catch((reason: unknown) => this.logUnrecorded(reason));
      throw error;
    }
  }

  /** Records a download before its first byte is sent; `size` is null for a directory. */
  async download(call: RecordedCall, path: string, size: number | null): Promise<void> {
    await this.execute(call, { type: 'RecordDownload', agentId: call.agentId, paths: await this.seal(call, 'downloaded', { path }), size });
  }

  /** Encrypts paths with the agent's data key. */
  seal({ agentId, callId }: RecordedCall, what: string, paths: object): Promise<Sealed> {
    return this.keyring.seal(agentId, `files ${callId} ${what}`, JSON.stringify(paths));
  }

  private async execute({ agentId, context }: RecordedCall, command: FileCommand): Promise<void> {
    await this.aggregates.execute(`files-${agentId}`, filesDecider, command, context);
  }

  /** The change is over, so the caller gets its result. The next change records that the outcome of this one is unknown. */
  private logUnrecorded(error: unknown): void {
    this.logger.warn({ msg: 'the end of a change of files could not be recorded', err: error });
  }
}

function failureOf(error: unknown, signal: AbortSignal): FileChangeFailure {
  if (signal.aborted) return 'canceled';
  return error instanceof FileRefused || error instanceof ProblemError ? 'refused' : 'interrupted';
}
