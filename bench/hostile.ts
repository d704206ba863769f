import { agents } from './hostile/agents.ts';
import { bodies } from './hostile/bodies.ts';
import { brought } from './hostile/brought.ts';
import { slowBodies } from './hostile/slow-bodies.ts';
import { strangers } from './hostile/strangers.ts';
import { runParts } from './support/parts.ts';

const parts: Record<string, () => Promise<object>> = { bodies, agents, brought, 'slow-bodies': slowBodies, strangers };

/** Measures the effect of hostile callers and hostile agents on all others; `hostile:<part>` runs one part. */
export function run(part?: string): Promise<object> {
  return runParts('hostile', parts, part);
}
