import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';

import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { FILE_TRANSFER_MS_MAX, type FileRange, type FileRead } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { etagOf, rangeApplies, rangeOf } from './download-headers.ts';
import { FileRecords } from './file-records.service.ts';
import { fileRefusal, type FileCall } from './files.service.ts';
import { Meter } from './meter.ts';

/** The limit of a file that is sent or received (docs/reference/limits.md), in bytes. */
export const FILE_BYTES_MAX = 104_857_600;
/** The most bytes of a directory that is sent as a tar. */
const TAR_BYTES_MAX = 1_073_741_824;
/** The number of downloads that one process runs at once; an account may have a quarter of them. */
const DOWNLOADS = sharesOf(128);

export interface DownloadRequest {
  path: string;
  /** The headers of the request. */
  range: string | undefined;
  ifRange: string | undefined;
  /** The value is true if the caller requests the headers only. */
  isHead: boolean;
}

export interface Download {
  /** The name of the file or of the tar. */
  name: string;
  content: Readable;
  /** The properties of a file; null for the tar of a directory. */
  file: { size: number; etag: string; lastModified: string; range: FileRange | null } | null;
}

/** Sends files of agents. It wakes the agent first, keeps it awake until everything is sent, and records the caller. */
@Injectable()
export class Downloads {
  private readonly slots = { limiter: new FairLimiter(DOWNLOADS), full: 'Too many downloads of this account run at once.' };

  constructor(
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
    private readonly records: FileRecords,
  ) {}

  /** Resolves once the first byte can be sent. The caller must read or destroy the content. */
  open(call: FileCall, request: DownloadRequest): Promise<Download> {
    return new Promise((resolve, reject) => {
      const send = async (handle: ContainerHandle, woken: boolean) => {
        if (woken) call.onWoken();
        const { download, sent } = await this.begin(call, request, handle);
        resolve(download);
        await sent;
      };
      this.containers
        .use({ ...call, sandboxId: call.agentId, trigger: 'files' }, this.slots, send)
        .catch((error: unknown) => reject(fileRefusal(call.agentId, error)));
    });
  }

  private async begin(
    call: FileCall,
    request: DownloadRequest,
    handle: ContainerHandle,
  ): Promise<{ download: Download; sent: Promise<void> }> {
    const signal = AbortSignal.any([call.signal, timeoutSignal(FILE_TRANSFER_MS_MAX)]);
    let file: Download['file'] = null;
    const range = ({ size, mtime }: { size: number; mtime: number }) => {
      const lastModified = new Date(mtime * 1_000).toUTCString();
      const etag = etagOf(size, mtime, Date.now());
      file = { size, etag, lastModified, range: rangeApplies(request.ifRange, etag, lastModified) ? rangeOf(request.range, size) : null };
      return file.range;
    };
    const read = await this.runtime.files.read(handle, request.path, { range, maxBytes: FILE_BYTES_MAX, signal });
    try {
      if (!request.isHead) await this.records.download(call, read.path, read.size);
    } catch (error) {
      read.content.destroy();
      throw error;
    }
    const meter = new Meter(expectedLength(read, file));
    const sent = pipeline(read.content, meter, { signal })
      .then(() => finished(meter))
      .catch(() => undefined);
    const name = posix.basename(read.path) || 'root';
    return { download: { name: read.kind === 'directory' ? `${name}.tar` : name, content: meter, file }, sent };
  }
}

function expectedLength({ size }: FileRead, file: Download['file']): { bytes: number } | { bytesMax: number } {
  if (size === null) return { bytesMax: TAR_BYTES_MAX };
  return { bytes: file?.range ? file.range.end - file.range.start + 1 : size };
}
