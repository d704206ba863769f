import { mkdirSync, watch } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RuntimeEvent } from '../runtime.ts';

/** A folder with one file per agent. The service and the supervisors touch the file at each change, and the whole folder is watched. */
export class Changes {
  constructor(private readonly folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  file(agentId: string): string {
    return join(this.folder, agentId);
  }

  async touch(agentId: string): Promise<void> {
    await writeFile(this.file(agentId), String(Date.now()));
  }

  /** Watches from this call on. Changes that come before they are read are kept, once per agent. */
  watch(signal: AbortSignal): AsyncIterable<RuntimeEvent> {
    const pending = new Set<string>();
    let lost = false;
    let wake: () => void = () => undefined;
    const watcher = watch(this.folder, (_, name) => {
      if (name === null) lost = true;
      else pending.add(name);
      wake();
    });
    watcher.on('error', () => {
      lost = true;
      wake();
    });
    signal.addEventListener('abort', () => wake());
    if (signal.aborted) watcher.close();
    async function* events(): AsyncGenerator<RuntimeEvent> {
      try {
        while (!signal.aborted) {
          if (lost) {
            lost = false;
            pending.clear();
            yield { kind: 'lost' };
          }
          const [agentId] = pending;
          if (agentId === undefined) {
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
          } else {
            pending.delete(agentId);
            yield { kind: 'changed', agentId };
          }
        }
      } finally {
        watcher.close();
      }
    }
    signal.addEventListener('abort', () => watcher.close(), { once: true });
    return events();
  }
}
