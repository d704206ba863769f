import type { Readable } from 'node:stream';

import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { MessageIntake } from '../messages/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { invalidField } from '../../kernel/errors/refusal.ts';
import type { FormFile, MultipartForm } from '../../http/requests/multipart-form.ts';
import { UNFINISHED_PREFIX } from '../../runtime/file-paths.ts';
import { FILE_TRANSFER_MS_MAX, FileRefused, type ReserveBytes } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { FILE_BYTES_MAX } from './downloads.service.ts';
import { FileRecords } from './file-records.service.ts';
import { pathMessage, type UploadedFileDto, type WrittenFileDto } from './files.dto.ts';
import { fileRefusal, type FileCall } from './files.service.ts';
import { nameMessage, namesLike } from './upload-names.ts';
import { VolumeRoom } from './volume-room.service.ts';

/** The number of uploads that one process runs at once; an account may have a quarter of them. */
const UPLOADS = sharesOf(128);
/** The directory of the volume in which files without a directory of their own arrive. */
const INBOX = 'inbox';
/** The longest time in which a refused file is removed, ms. */
const CLEAN_UP_MS = 10_000;

/** The place of a file in the volume. */
export interface PlacedFile {
  path: string;
  /** True if everybody may run it. */
  executable: boolean;
}

/** A body that is a file, or has one. */
export interface FileBody {
  read<T>(onFile: (file: { content: Readable }) => Promise<T>): Promise<T>;
}

/** Receives files for agents. It wakes the agent first, holds it awake until the file is there, and records who sent it. */
@Injectable()
export class Uploads {
  private readonly places = { limiter: new FairLimiter(UPLOADS), full: 'Too many uploads of this account run at once.' };

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly records: FileRecords,
    private readonly room: VolumeRoom,
    private readonly messages: MessageIntake,
  ) {}

  /** Stores the file of the form. Its bytes are not read before it is this upload's turn. */
  async receive(call: FileCall, form: MultipartForm): Promise<UploadedFileDto> {
    try {
      return await this.containers.use({ ...call, sandboxId: call.agentId, trigger: 'files' }, this.places, (handle, woken) => {
        if (woken) call.onWoken();
        return form.read((file) => this.recorded(call, handle, file));
      });
    } catch (error) {
      throw fileRefusal(call.agentId, error);
    }
  }

  /** Stores the file at exactly that path, where it replaces a file. Missing directories are made. */
  async put(call: FileCall, place: PlacedFile, body: FileBody): Promise<WrittenFileDto> {
    const need = { ...call, sandboxId: call.agentId, trigger: 'files' };
    try {
      return await this.containers.use(need, this.places, (handle, woken) => {
        if (woken) call.onWoken();
        return body.read(({ content }) => this.written(call, handle, place, content));
      });
    } catch (error) {
      throw fileRefusal(call.agentId, error);
    }
  }

  private written(call: FileCall, handle: ContainerHandle, { path, executable }: PlacedFile, content: Readable): Promise<WrittenFileDto> {
    const intent = { change: 'write' as const, paths: { path }, timeoutMs: FILE_TRANSFER_MS_MAX };
    return this.room.whileWriting(call.agentId, handle, (reserve) =>
      this.records.around(call, intent, async () => {
        const signal = AbortSignal.any([call.signal, timeoutSignal(FILE_TRANSFER_MS_MAX)]);
        const options = { maxBytes: FILE_BYTES_MAX, reserve, onTaken: 'replace' as const, parents: true, executable, signal };
        const answer = await this.runtime.files.write(handle, path, content, options);
        return { answer, outcome: { change: 'write', size: answer.size, created: answer.created } };
      }),
    );
  }

  private async recorded(call: FileCall, handle: ContainerHandle, file: FormFile): Promise<UploadedFileDto> {
    const message = nameMessage(file.name);
    if (message !== null) throw invalidField('file', message);
    const intent = { change: 'upload' as const, paths: { name: file.name }, timeoutMs: FILE_TRANSFER_MS_MAX };
    return this.room.whileWriting(call.agentId, handle, (reserve) =>
      this.records.around(call, intent, async () => {
        const { path, size } = await this.store(call, handle, file, reserve);
        const paths = await this.records.seal(call, 'stored', { path });
        return { answer: { ok: true, path, name: file.name, size }, outcome: { change: 'upload', size, paths } };
      }),
    );
  }

  /** The file is written under another name first and moved when the whole form has come, because its directory may be named after it. */
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

  /** Moves the file into the inbox and sends the agent a message about it; if that is refused, there is no file. */
  private async attach(call: FileCall, place: Staged, sent: { file: FormFile; message: string; size: number }): Promise<string> {
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
    await this.runtime.files.remove(handle, path, timeoutSignal(CLEAN_UP_MS)).catch(() => undefined);
  }

  private async toDirectory({ handle, staged, name, signal }: Staged, directory: string): Promise<string> {
    const message = pathMessage(directory);
    if (message !== null) throw invalidField('dest_dir', message);
    const { files } = this.runtime;
    await files.makeDirectory(handle, directory, { parents: true, signal });
    return (await files.move(handle, staged, `${directory}/${name}`, signal, 'replace')).to;
  }

  private async toInbox({ handle, staged, name, signal }: Staged, callId: string): Promise<string> {
    const { files } = this.runtime;
    await files.makeDirectory(handle, INBOX, { parents: true, signal });
    for (const free of namesLike(name, callId)) {
      try {
        return (await files.move(handle, staged, `${INBOX}/${free}`, signal)).to;
      } catch (error) {
        if (!(error instanceof FileRefused) || error.reason !== 'exists') throw error;
      }
    }
    throw new FileRefused('exists');
  }
}

interface Staged {
  handle: ContainerHandle;
  /** The path of the finished file under its other name. */
  staged: string;
  name: string;
  signal: AbortSignal;
}

/** Returns the content type that the sender gave if it is one. */
function mediaType(given: string): string {
  return /^[\w!#$&^.+-]{1,100}\/[\w!#$&^.+-]{1,100}$/.test(given) ? given : 'application/octet-stream';
}
