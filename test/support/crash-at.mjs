/**
 * Is loaded into a started service with `--import`, and kills its own process (SIGKILL) right after the n-th step that a saga completes,
 * counted from the moment at which the order file in its data folder was written. The file contains {"after": n, "saga": "deployments"}.
 */
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

// The service's threads have none of its environment variables, and complete no steps.
const orderFile = isMainThread ? join(process.env.MOORING_DATA_DIR, 'crash-order') : '';
let order = '';
let seen = 0;

function read() {
  try {
    return readFileSync(orderFile, 'utf8');
  } catch {
    return '';
  }
}

subscribe('mooring.saga.step', ({ saga, key, step }) => {
  const now = read();
  if (now !== order) {
    order = now;
    seen = 0;
  }
  if (order === '') return;
  const wanted = JSON.parse(order);
  if (saga !== wanted.saga || (wanted.key && key !== wanted.key)) return;
  seen += 1;
  if (seen !== wanted.after) return;
  appendFileSync(`${orderFile}.crashes`, `${saga} ${step}\n`);
  process.kill(process.pid, 'SIGKILL');
});
