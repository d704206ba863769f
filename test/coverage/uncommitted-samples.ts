import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { sampleNames, samplesFolder, sums, sumsFile } from './event-samples.ts';

/**
 * Removes the samples that the last commit does not have, and their checksums: their place in the sample history may have changed since they
 * were written, and no program has stored such an event. Nothing is removed where there is no commit.
 */
export function removeUncommittedSamples(): void {
  const { status, stdout } = spawnSync('git', ['ls-tree', '--name-only', 'HEAD', './'], { cwd: samplesFolder, encoding: 'utf8' });
  if (status !== 0) return;
  const committed = new Set(stdout.split('\n'));
  const removed = new Set(sampleNames().filter((name) => !committed.has(name)));
  if (removed.size === 0) return;
  for (const name of removed) rmSync(join(samplesFolder, name));
  const kept = [...sums()].filter(([name]) => !removed.has(name)).map(([name, sum]) => `${sum}  ${name}\n`);
  writeFileSync(sumsFile, kept.join(''));
}
