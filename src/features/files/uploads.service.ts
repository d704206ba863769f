/*
 * Stores files that callers send in the volumes of agents.
 *
 * It owns the steps of one upload and their undoing after a failure. It does not own the bytes of a request (`MultipartForm`), the quota of
 * volumes (`VolumeQuota`), the records (`FileRecords`), or the message about an attachment (`MessageIntake`).
 *
 * Invariants:
 * U1. A file is stored as a whole or not at all: it is written under an unfinished name, and moved when the whole request has arrived.
 * U2. A refused upload leaves nothing behind: the unfinished file is removed, and an attachment whose message is refused is removed, too.
 * U3. Nothing is read from a request before the upload has its slot, and bytes are reserved in the volume before they are written.
 * U4. An upload is recorded before it changes anything, under the id of the request, so that a repeated request does not store it twice.
 * U5. A file without a directory never replaces another file: it gets a free name in the inbox.
 */

import type { Readable } from 'node:stream';

import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { MessageIntake } from '../messages/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { invalidField } from '../../kernel/errors/problem-error.ts';
import type { FormFile, MultipartForm } from '../../http/requests/multipart-form.ts';
import { UNFINISHED_PREFIX } from '../../runtime/file-paths.ts';
import { FILE_TRANSFER_MS_MAX, FileRefused, type ReserveBytes } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { FILE_BYTES_MAX } from './downloads.service.ts';
import { FileRecords } from './file-records.service.ts';
import { pathProblem, type UploadedFileDto, type WrittenFileDto } from './files.dto.ts';
import { fileRefusal, type FileCall } from './files.service.ts';
import { nameProblem, candidateNames } from './upload-names.ts';
import { VolumeQuota } from './volume-quota.service.ts';

/** The number of uploads that one process runs at once; an account may have a quarter of them. */
const UPLOADS = sharesOf(128);
/** The directory of the volume for files that are uploaded without a directory. */
const INBOX = 'inbox';
/** U2: the timeout for removing a refused file, in ms. */
const CLEANUP_TIMEOUT_MS = 10_000;

/** The place of a file in the volume. */
export interface FileTarget {
  path: string;
  /** The value is true if everybody may execute it. */
  executable: boolean;
}

/** A request body that is a file, or contains one. */
export interface FileBody {
  read<T>(onFile: (file: { content: Readable }) => Promise<T>): Promise<T>;
}

/** Stores files for agents. It wakes the agent first, keeps it awake until the file is stored, and records the caller. */
@Injectable()
export class Uploads {
  private readonly slots = { limiter: new FairLimiter(UPLOADS), full: 'Too many uploads of this account run at once.' };

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly records: FileRecords,
    private readonly quota: VolumeQuota,
    private readonly messages: MessageIntake,
  ) {}

  /** Stores the file of the form. U3: its bytes are not read before this upload has a slot. */
  async receive(call: FileCall, form: MultipartForm): Promise<UploadedFileDto> {
    try {
      return await this.containers.use({ ...call, sandboxId: call.agentId, trigger: 'files' }, this.slots, (handle, woken) => {
        if (woken) call.onWoken();
        return form.read((file) => this.storeRecorded(call, handle, file));
      });
    } catch (error) {
      throw fileRefusal(call.agentId, error);
    }
  }

  /** Stores the file at exactly that path, replacing a file there. Missing directories are created. */
  async put(call: FileCall, place: FileTarget, body: FileBody): Promise<WrittenFileDto> {
    const need = { ...call, sandboxId: call.agentId, trigger: 'files' };
    try {
      return await this.containers.use(need, this.slots, (handle, woken) => {
        if (woken) call.onWoken();
        return body.read(({ content }) => this.writeRecorded(call, handle, place, content));
      });
    } catch (error) {
      throw fileRefusal(call.agentId, error);
    }
  }

  private writeRecorded(
    call: FileCall,
    handle: ContainerHandle,
    { path, executable }: FileTarget,
    content: Readable,
  ): Promise<WrittenFileDto> {
    const intent = { change: 'write' as const, paths: { path }, timeoutMs: FILE_TRANSFER_MS_MAX };
    return this.quota.whileWriting(call.agentId, handle, (reserve) =>
      this.records.recordAround(call, intent, async () => {
        const signal = AbortSignal.any([call.signal, timeoutSignal(FILE_TRANSFER_MS_MAX)]);
        const options = { maxBytes: FILE_BYTES_MAX, reserve, onTaken: 'replace' as const, parents: true, executable, signal };
        const answer = await this.runtime.files.write(handle, path, content, options);
        return { answer, outcome: { change: 'write', size: answer.size, created: answer.created } };
      }),
    );
  }

  private async storeRecorded(call: FileCall, handle: ContainerHandle, file: FormFile): Promise<UploadedFileDto> {
    const message = nameProblem(file.name);
    if (message !== null) throw invalidField('file', message);
    const intent = { change: 'upload' as const, paths: { name: file.name }, timeoutMs: FILE_TRANSFER_MS_MAX };
    return this.quota.whileWriting(call.agentId, handle, (reserve) =>
      this.records.recordAround(call, intent, async () => {
        const { path, size } = await this.store(call, handle, file, reserve);
        const paths = await this.records.seal(call, 'stored', { path });
        return { answer: { ok: true, path, name: file.name, size }, outcome: { change: 'upload', size, paths } };
      }),
    );
  }

  /** U1: the file is written under an unfinished name first, because the form may name the directory after the file's content. */
  private async store(
    call: FileCall,
    handle: ContainerHandle,
    file: FormFile,
    reserve: ReserveBytes | null,
  ): Promise<{ path: string; size: number }> {
    const { files } = this.runtime;
    const signal = AbortSignal.any([call.signal, timeoutSignal(FILE_TRANSFER_MS_MAX)]);
    const options = { maxBytes: FILE_BYTES_MAX, reserve, onTaken: 'replace' as const, parents: false, signal };
    const staged = await files.write(handle, `${UNFINISHED_PREFIX}upload-${call.callId}`, file.content, options);
    try {
      const { dest_dir: directory, message = '' } = await file.texts;
      const place = { handle, staged: staged.path, name: file.name, signal };
      if (directory === undefined) return { path: await this.attach(call, place, { file, message, size: staged.size }), size: staged.size };
      if (message !== '') throw invalidField('message', 'goes with an attachment, which has no dest_dir');
      return { path: await this.toDirectory(place, directory), size: staged.size };
    } catch (error) {
      await this.discard(handle, staged.path);
      throw error;
    }
  }

  /** Moves the file into the inbox and sends the agent a message about it. U2: if the message is refused, the file is removed. */
  private async attach(call: FileCall, place: StagedFile, sent: { file: FormFile; message: string; size: number }): Promise<string> {
    const { context, accountId, agentId, callId } = call;
    const { file, message, size } = sent;
    const path = await this.toInbox(place, callId);
    const attachments = [{ path, name: file.name, size, contentType: mediaType(file.contentType) }];
    const content = { channel: 'attachment' as const, text: message, attachments };
    try {
      await this.messages.attachments({
        context,
        accountId,
        agentId,
        messageId: uuidv5('attachment', callId),
        isRepeatable: true,
        content,
      });
    } catch (error) {
      await this.discard(place.handle, path);
      throw error;
    }
    return path;
  }

  private async discard(handle: ContainerHandle, path: string): Promise<void> {
    await this.runtime.files.remove(handle, path, timeoutSignal(CLEANUP_TIMEOUT_MS)).catch(() => undefined);
  }

  private async toDirectory({ handle, staged, name, signal }: StagedFile, directory: string): Promise<string> {
    const message = pathProblem(directory);
    if (message !== null) throw invalidField('dest_dir', message);
    const { files } = this.runtime;
    await files.makeDirectory(handle, directory, { parents: true, signal });
    return (await files.move(handle, staged, `${directory}/${name}`, signal, 'replace')).to;
  }

  /** U5 */
  private async toInbox({ handle, staged, name, signal }: StagedFile, callId: string): Promise<string> {
    const { files } = this.runtime;
    await files.makeDirectory(handle, INBOX, { parents: true, signal });
    for (const free of candidateNames(name, callId)) {
      try {
        return (await files.move(handle, staged, `${INBOX}/${free}`, signal)).to;
      } catch (error) {
        if (!(error instanceof FileRefused) || error.reason !== 'exists') throw error;
      }
    }
    throw new FileRefused('exists');
  }
}

interface StagedFile {
  handle: ContainerHandle;
  /** The path of the complete file under its unfinished name. */
  staged: string;
  name: string;
  signal: AbortSignal;
}

/** Returns the sender's content type if it is well-formed, else the default. */
function mediaType(given: string): string {
  return /^[\w!#$&^.+-]{1,100}\/[\w!#$&^.+-]{1,100}$/.test(given) ? given : 'application/octet-stream';
}
