import { extname } from 'node:path';

import { Injectable, type OnApplicationShutdown } from '@nestjs/common';

import { type Share } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import type { Builder } from '../../../kernel/config/config.ts';
import { ThreadFailed, WorkerThread } from '../../../kernel/async/worker-thread.ts';
import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import type { DockerfileNeeds } from '../../../builds/dockerfiles/dockerfile-bases.ts';
import type { ProjectFiles } from '../../../builds/projects/project-files.ts';
import type { ProjectPlan } from '../../../runtime/project-plan.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import type { SourceAnswer, SourceQuestion } from './source-reading.ts';

/** The timeout of one read, in ms. Files of 256 KiB are read within a second on a busy machine. */
const READ_MS = 10_000;
const HEAP_MB = 256;
/** The files are refused after this many timeouts. A single one may mean that the process was suspended. */
const LATE_READS_MAX = 2;

const reasons: Record<ThreadFailed['reason'], string> = {
  late: 'take too long to be read',
  memory: 'take too much memory to be read',
  ended: 'can’t be read',
};

/** Reads the build files of tenants in a thread with bounds, so that a fault of a reader affects only the deployments that need it. */
@Injectable()
export class SourceReader implements OnApplicationShutdown {
  /** One file is read at a time, from each account in turn. */
  private readonly turns = new FairLimiter({ all: 1 });

  constructor(private readonly thread: Pick<WorkerThread<SourceQuestion, SourceAnswer>, 'ask' | 'close'>) {}

  static open(): SourceReader {
    const program = new URL(`./source-reading.worker${extname(import.meta.url)}`, import.meta.url);
    return new SourceReader(new WorkerThread<SourceQuestion, SourceAnswer>(program, { answerMs: READ_MS, heapMb: HEAP_MB }));
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
  async planOf(files: ProjectFiles, share: Share, signal: AbortSignal): Promise<ProjectPlan> {
    const answer = await this.read({ kind: 'project', files }, share, signal);
    if (answer.kind !== 'plan') throw new Error('a project was read as something else');
    return answer.plan;
  }

  private async read(question: SourceQuestion, share: Share, signal: AbortSignal): Promise<SourceAnswer> {
    const answer = await this.turns.run(share, signal, () => this.ask(question));
    if (answer.kind === 'failed') throw refused('ended', new Error(answer.cause));
    if (answer.kind !== 'refused') return answer;
    throw answer.by === 'RuntimeRefused' ? new RuntimeRefused(answer.message) : new RepositoryRefused(answer.message);
  }

  private async ask(question: SourceQuestion): Promise<SourceAnswer> {
    for (let late = 1; ; late += 1)
      try {
        return await this.thread.ask(question);
      } catch (error) {
        if (!(error instanceof ThreadFailed)) throw error;
        if (error.reason !== 'late' || late === LATE_READS_MAX) throw refused(error.reason, error);
      }
  }
}

function refused(reason: ThreadFailed['reason'], cause: Error): RepositoryRefused {
  return new RepositoryRefused(`The files that say how the image is built ${reasons[reason]}.`, { cause });
}
