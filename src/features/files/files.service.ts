import { Readable } from 'node:stream';

import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { FileRefused, type FileList } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import { containerLost } from '../../sandboxes/index.ts';
import { REFUSALS } from './file-refusals.ts';
import { FileRecords, type RecordedCall } from './file-records.service.ts';
import type { FileOutcome } from './files.decider.ts';
import type { FileChange } from './files.events.ts';
import type { MadeDirectoryDto, MovedFileDto, WrittenFileDto } from './files.dto.ts';
import { VolumeQuota } from './volume-quota.service.ts';

/** The most bytes of a written text. The request body is limited to the same size. */
const WRITE_BYTES_MAX = 1_048_576;
/** The timeout of a call, in ms. */
const CALL_TIMEOUT_MS = 60_000;
/** The number of calls that one process makes at once; an account may have a quarter of them. */
const CALLS = sharesOf(128);

/** A caller's request to the files of an agent. */
export interface FileCall extends RecordedCall {
  accountId: string;
  /** The value false refuses a sleeping container instead of waking it. */
  wake?: boolean;
  /** Called if the agent had to be woken. */
  onWoken: () => void;
}

/** Lists and changes the files of agents. It wakes the agent first, and records changes. */
@Injectable()
export class Files {
  private readonly slots = { limiter: new FairLimiter(CALLS), full: 'Too many calls to files of this account run at once.' };

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly records: FileRecords,
    private readonly quota: VolumeQuota,
  ) {}

  list(call: FileCall, path: string): Promise<FileList> {
    return this.runInContainer(call, (handle, signal) => this.runtime.files.list(handle, path, signal));
  }

  /** Writes the text. Missing directories are created. */
  write(call: FileCall, path: string, content: string): Promise<WrittenFileDto> {
    const intent = { change: 'write' as const, paths: { path }, timeoutMs: CALL_TIMEOUT_MS };
    return this.runInContainer(call, (handle, signal) =>
      this.quota.whileWriting(call.agentId, handle, (reserve) =>
        this.records.recordAround(call, intent, async () => {
          const options = { maxBytes: WRITE_BYTES_MAX, reserve, onTaken: 'replace' as const, parents: true, signal };
          const answer = await this.runtime.files.write(handle, path, Readable.from([Buffer.from(content)]), options);
          return { answer, outcome: { change: 'write', size: answer.size, created: answer.created } };
        }),
      ),
    );
  }

  makeDirectory(call: FileCall, path: string, parents: boolean): Promise<MadeDirectoryDto> {
    return this.change(call, 'mkdir', { path }, async (handle, signal) => {
      const answer = await this.runtime.files.makeDirectory(handle, path, { parents, signal });
      return { answer, outcome: { change: 'mkdir', created: answer.created } };
    });
  }

  move(call: FileCall, from: string, to: string): Promise<MovedFileDto> {
    return this.change(call, 'move', { from, to }, async (handle, signal) => ({
      answer: await this.runtime.files.move(handle, from, to, signal),
      outcome: { change: 'move' },
    }));
  }

  async remove(call: FileCall, path: string): Promise<void> {
    await this.change(call, 'delete', { path }, async (handle, signal) => ({
      answer: await this.runtime.files.remove(handle, path, signal),
      outcome: { change: 'delete' },
    }));
  }

  private runInContainer<T>(call: FileCall, work: (handle: ContainerHandle, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.containers.use({ ...call, sandboxId: call.agentId, trigger: 'files' }, this.slots, async (handle, woken) => {
      if (woken) call.onWoken();
      return work(handle, AbortSignal.any([call.signal, timeoutSignal(CALL_TIMEOUT_MS)])).catch((error: unknown) => {
        throw fileRefusal(call.agentId, error);
      });
    });
  }

  private change<T>(
    call: FileCall,
    change: FileChange,
    paths: object,
    work: (handle: ContainerHandle, signal: AbortSignal) => Promise<{ answer: T; outcome: FileOutcome }>,
  ): Promise<T> {
    const intent = { change, paths, timeoutMs: CALL_TIMEOUT_MS };
    return this.runInContainer(call, (handle, signal) => this.records.recordAround(call, intent, () => work(handle, signal)));
  }
}

/** Returns the refusal for an error of a file call; any other error is returned unchanged. */
export function fileRefusal(sandboxId: string, error: unknown): unknown {
  if (error instanceof FileRefused) return new ProblemError(...REFUSALS[error.reason]);
  if (error instanceof RuntimeUnavailable)
    return new ProblemError('runtime_unavailable', 'The container engine did not answer; a change may have been made.');
  if (error instanceof ContainerGone || error instanceof RuntimeRefused)
    return containerLost(sandboxId, 'The container ended meanwhile, or can’t work with files.');
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return new ProblemError('runtime_unavailable', 'The call took too long, and was ended.');
  return error;
}
