import { bytes } from './scale/bytes.ts';
import { chat } from './scale/chat.ts';
import { engineAway } from './scale/engine-away.ts';
import { idle } from './scale/idle.ts';
import { recovery } from './scale/recovery.ts';
import { sharing } from './scale/replicas.ts';
import { waiting } from './scale/waiting.ts';
import { runParts } from './support/parts.ts';

const parts: Record<string, () => Promise<object>> = { idle, waiting, bytes, chat, replicas: sharing, recovery, 'engine-away': engineAway };

/** This benchmark measures what ten thousand agents, long waits, large messages and kills do to the service; `scale:<part>` runs one part. */
export function run(part?: string): Promise<object> {
  return runParts('scale', parts, part);
}
