import { posix } from 'node:path';

import { Injectable } from '@nestjs/common';

import {
  Downloads,
  Files,
  Uploads,
  type Download,
  type DownloadRequest,
  type FileBody,
  type FileCall,
  type PlacedFile,
} from '../../files/services.ts';
import type { FileList } from '../../../runtime/files.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import type { ComputerCall } from './computer-call.ts';

/** A file that was stored. */
export interface StoredFile {
  path: string;
  name: string;
  size: number;
  /** The value is true if there was no file at the path before. */
  created: boolean;
}

/** Lists, sends and stores files of computers. */
@Injectable()
export class ComputerFiles {
  constructor(
    private readonly files: Files,
    private readonly downloads: Downloads,
    private readonly uploads: Uploads,
  ) {}

  /** Lists a directory of the volume. Throws what `Files.list` throws. */
  list(call: ComputerCall, callId: string, path: string): Promise<FileList> {
    return this.files.list(fileCall(call, callId), path);
  }

  /** Starts sending a file, or a directory as a tar. Throws what `Downloads.open` throws. */
  open(call: ComputerCall, callId: string, request: DownloadRequest): Promise<Download> {
    return this.downloads.open(fileCall(call, callId), request);
  }

  /** Stores the file at exactly this path of the volume. Throws what `Uploads.put` throws. */
  async put(call: ComputerCall, callId: string, place: PlacedFile, body: FileBody): Promise<StoredFile> {
    const { path, size, created } = await this.uploads.put(fileCall(call, callId), place, body);
    return { path, name: posix.basename(path), size, created };
  }
}

function fileCall({ computerId, ...call }: ComputerCall, callId: string): FileCall {
  return { ...call, agentId: computerSandbox(computerId), callId };
}
