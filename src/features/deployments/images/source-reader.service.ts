import { extname } from 'node:path';

import { Injectable, type OnApplicationShutdown } from '@nestjs/common';

import { type Share } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import type { Builder } from '../../../kernel/config/config.ts';
import { ThreadFailed, WorkerThread } from '../../../kernel/async/worker-thread.ts';
import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import type { DockerfileNeeds } from '../../../builds/dockerfiles/dockerfile-bases.ts';
import type { RunBounds } from '../../../builds/run-settings/run-setting-rules.ts';
import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';
import type { ProjectPlan } from '../../../runtime/project-plan.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import type { AskedProject, SourceReadResult, SourceReadRequest } from './source-reading.ts';

/** The timeout of one read, in ms. Files of 256 KiB are read within a second on a busy machine. */
const READ_TIMEOUT_MS = 10_000;
const HEAP_MB = 256;
/** The files are refused after this many timeouts. A single one may mean that the process was suspended. */
const TIMED_OUT_READS_MAX = 2;

const reasons: Record<ThreadFailed['reason'], string> = {
  late: 'take too long to be read',
  memory: 'take too much memory to be read',
  ended: 'can’t be read',
};

/** Reads the build files of tenants in a thread with bounds, so that a fault of a reader affects only the deployments that need it. */
@Injectable()
export class SourceReader implements OnApplicationShutdown {
  /** One file is read at a time, from each account in turn. */
  private readonly limiter = new FairLimiter({ all: 1 });

  constructor(private readonly thread: Pick<WorkerThread<SourceReadRequest, SourceReadResult>, 'ask' | 'close'>) {}

  static open(): SourceReader {
    const program = new URL(`./source-reading.worker${extname(import.meta.url)}`, import.meta.url);
    return new SourceReader(
      new WorkerThread<SourceReadRequest, SourceReadResult>(program, { responseMs: READ_TIMEOUT_MS, heapMb: HEAP_MB }),
    );
  }

  onApplicationShutdown(): Promise<void> {
    return this.thread.close();
  }

  /** Returns the images that the Dockerfile names, and the values of its arguments among those given. Throws `RepositoryRefused`, and the signal's reason if it aborts before the file's turn. */
  async needsOf(
    dockerfile: { text: string; builder: Builder; given: Record<string, string> },
    share: Share,
    signal: AbortSignal,
  ): Promise<DockerfileNeeds> {
    const answer = await this.read({ kind: 'dockerfile', ...dockerfile }, share, signal);
    if (answer.kind !== 'needs') throw new Error('a Dockerfile was read as something else');
    return answer.needs;
  }

  /**
   * Returns the plan of a project. Throws `RepositoryRefused`, the runtime's refusal, and the signal's reason if it aborts while the files
   * wait.
   */
  async planOf(project: AskedProject, share: Share, signal: AbortSignal): Promise<ProjectPlan> {
    const answer = await this.read({ kind: 'project', project }, share, signal);
    if (answer.kind !== 'plan') throw new Error('a project was read as something else');
    return answer.plan;
  }

  /** Returns the settings in the text of a mooring.json. Throws `RepositoryRefused`, and the signal's reason as `planOf` does. */
  async settingsOf(text: string, bounds: RunBounds, share: Share, signal: AbortSignal): Promise<RunSettings> {
    const answer = await this.read({ kind: 'settings', text, bounds }, share, signal);
    if (answer.kind !== 'settings') throw new Error('mooring.json was read as something else');
    return answer.settings;
  }

  private async read(question: SourceReadRequest, share: Share, signal: AbortSignal): Promise<SourceReadResult> {
    const answer = await this.limiter.run(share, signal, () => this.request(question));
    if (answer.kind === 'failed') throw readRefusal('ended', new Error(answer.cause));
    if (answer.kind !== 'refused') return answer;
    throw answer.by === 'RuntimeRefused' ? new RuntimeRefused(answer.message) : new RepositoryRefused(answer.message);
  }

  private async request(question: SourceReadRequest): Promise<SourceReadResult> {
    for (let late = 1; ; late += 1)
      try {
        return await this.thread.ask(question);
      } catch (error) {
        if (!(error instanceof ThreadFailed)) throw error;
        if (error.reason !== 'late' || late === TIMED_OUT_READS_MAX) throw readRefusal(error.reason, error);
      }
  }
}

function readRefusal(reason: ThreadFailed['reason'], cause: Error): RepositoryRefused {
  return new RepositoryRefused(`The files that say how the image is built ${reasons[reason]}.`, { cause });
}
