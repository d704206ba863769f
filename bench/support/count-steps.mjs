/** Loaded into a started service with `--import`. It writes the number of messages that this process has delivered to a file. */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';

const EVERY_MS = 200;
const file = `${process.env.BENCH_STEPS}-${process.env.BENCH_REPLICA}`;
let delivered = 0;
let written = -1;

subscribe('mooring.saga.step', ({ saga, step }) => {
  if (saga === 'messages' && step === 'recorded') delivered += 1;
});

setInterval(() => {
  if (written === delivered) return;
  written = delivered;
  writeFileSync(file, String(delivered));
}, EVERY_MS).unref();
