import { bytes } from './scale/bytes.ts';
import { chat } from './scale/chat.ts';
import { engineAway } from './scale/engine-away.ts';
import { idle } from './scale/idle.ts';
import { recovery } from './scale/recovery.ts';
import { sharing } from './scale/replicas.ts';
import { waiting } from './scale/waiting.ts';
import { ScaleBed } from './support/scale-bed.ts';

const parts: Record<string, () => Promise<object>> = { idle, waiting, bytes, chat, replicas: sharing, recovery, 'engine-away': engineAway };

/** This benchmark measures what ten thousand agents, long waits, large messages and kills do to the service; `scale:<part>` runs one part. */
export async function run(part?: string): Promise<object> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void ScaleBed.disposeAll().finally(() => process.exit(1)));
  const asked = part === undefined ? Object.keys(parts) : [part];
  const figures: Record<string, object> = {};
  for (const name of asked) {
    const measure = parts[name];
    if (measure === undefined) throw new Error(`scale has no part ${name}; there are ${Object.keys(parts).join(', ')}`);
    figures[name] = await measure();
    console.log(name, JSON.stringify(figures[name], null, 1));
  }
  return figures;
}
