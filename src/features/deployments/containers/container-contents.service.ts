import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { Injectable } from '@nestjs/common';
import { pack } from 'tar-stream';

import { absoluteOf, isScript, isWithin, type CustomFile } from '../../custom-files/index.ts';
import { CustomFiles } from '../../custom-files/services.ts';
import { Variables } from '../../environment/services.ts';
import type { Pass } from '../../../sandboxes/index.ts';
import { OutputLines } from '../../../runtime/output-lines.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ContainerHandle } from '../../../runtime/container.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import type { Template } from '../../templates/index.ts';
import type { BuildLog } from '../records/build-log.ts';
import { VOLUME_PATH } from './container-spec.ts';

/** The timeout of one script, in seconds. The deployment's deadline may end it earlier. */
const SCRIPT_SECONDS_MAX = 300;
/** The most bytes of one script's output that are read. */
const SCRIPT_OUTPUT_BYTES_MAX = 1_048_576;

/** Provides the contents of an agent's container in addition to its image: variables, custom files, and the scripts among these. */
@Injectable()
export class ContainerContents {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly variables: Variables,
    private readonly files: CustomFiles,
  ) {}

  variablesOf(agentId: string): Promise<Record<string, string>> {
    return this.variables.of(agentId);
  }

  /** Returns the scripts that run at a deployment, in order. */
  async scriptsOf(agentId: string): Promise<CustomFile[]> {
    return (await this.files.of(agentId)).filter(isScript);
  }

  /** Deletes the stored contents of a deleted agent. May be repeated. */
  deleteAll(agentId: string): Promise<void> {
    return this.files.deleteAll(agentId);
  }

  /**
   * Puts the agent's custom files into a container that has not been started. May be repeated. Throws `RuntimeRefused` if a file would be
   * hidden, or can't be written there.
   */
  async putFiles(agentId: string, handle: ContainerHandle, template: Template | null): Promise<void> {
    const files = await this.files.of(agentId);
    for (const file of files) refuseHiddenPath(absoluteOf(file), template);
    // The volume is written separately, because a container with a read-only file system accepts files nowhere else.
    for (const place of [VOLUME_PATH, '/']) {
      const chosen = files.filter((file) => isWithin(absoluteOf(file), VOLUME_PATH) === (place === VOLUME_PATH));
      if (chosen.length > 0) await this.runtime.copyIn(handle, place, this.archiveOf(agentId, place, chosen));
    }
  }

  /**
   * Runs the scripts in the ready container, one after the other, until one fails. Returns the reason of a failure, or null. When the
   * signal aborts, it kills the script and throws the signal's reason.
   */
  async runScripts(
    { assertLease }: Pass,
    handle: ContainerHandle,
    scripts: CustomFile[],
    log: BuildLog,
    signal: AbortSignal,
  ): Promise<string | null> {
    for (const script of scripts) {
      const path = absoluteOf(script);
      log.line(`Running the custom script ${path}`);
      await log.flush();
      assertLease();
      const lines = { stdout: new OutputLines(log.line), stderr: new OutputLines(log.line) };
      const { exitCode, timedOut, truncated } = await this.runtime.exec(handle, {
        // A shell runs a script whose first line names no interpreter.
        argv: script.executable ? [path] : ['/bin/sh', path],
        timeoutMs: SCRIPT_SECONDS_MAX * 1_000,
        outputLimitBytes: SCRIPT_OUTPUT_BYTES_MAX,
        signal,
        onOutput: (stream, bytes) => lines[stream].push(bytes),
      });
      // The last line of a truncated output is dropped, because it may end with a part of a secret that would not be recognized.
      if (truncated) log.line('The rest of its output is not kept.');
      else Object.values(lines).forEach((each) => each.end());
      if (timedOut) return `The custom script ${path} took longer than ${SCRIPT_SECONDS_MAX} s.`;
      if (exitCode !== 0) return `The custom script ${path} ended with exit code ${exitCode}.`;
    }
    return null;
  }

  /** Returns the files as a tar stream, with one file at a time in memory. */
  private archiveOf(agentId: string, place: string, files: CustomFile[]): Readable {
    const tar = pack();
    const fill = async () => {
      for (const file of files) {
        const text = await this.files.contentOf(agentId, file);
        if (text === null) continue;
        const content = Buffer.from(text);
        const name = absoluteOf(file).slice(place === '/' ? 1 : place.length + 1);
        const header = { name, size: content.length, mode: file.executable ? 0o755 : 0o644, uid: 0, gid: 0 };
        if (content.length === 0) await new Promise<unknown>((done) => tar.entry(header, content, done));
        else await pipeline(Readable.from([content]), tar.entry(header));
      }
      tar.finalize();
    };
    fill().catch((error: unknown) => tar.destroy(error as Error));
    return Readable.from(tar);
  }
}

/** Throws `RuntimeRefused` if the template hides or write-protects the path of the file. */
function refuseHiddenPath(path: string, template: Template | null): void {
  const hidden = template?.tmpfs.find((directory) => isWithin(path, directory));
  if (hidden !== undefined)
    throw new RuntimeRefused(
      `The custom file ${path} would not be seen, because the template keeps ${hidden} in memory. Give it another target_dir.`,
    );
  if (template?.readOnlyRoot === true && !isWithin(path, VOLUME_PATH))
    throw new RuntimeRefused(
      `The custom file ${path} can't be written, because the template makes the file system read-only. Give it a target_dir in ${VOLUME_PATH}.`,
    );
}
