import { Logger } from '@nestjs/common';
import type Dockerode from 'dockerode';

const logger = new Logger('ContainerRuntime');
/** The number of parts of answers of each engine that were too long to be read. */
const counts = new WeakMap<Dockerode, number>();

/** Counts a part of an answer that was passed over, and logs the first. Labels are most of what can be so long, so that nothing of it is logged. */
export function noteOversized(docker: Dockerode, what: 'list' | 'events'): void {
  const count = (counts.get(docker) ?? 0) + 1;
  counts.set(docker, count);
  if (count === 1)
    logger.warn({
      msg: 'THE ENGINE TOLD OF SOMETHING IN MORE THAN 4 MiB, WHICH WAS PASSED OVER: look for containers, images or volumes with very large labels',
      what,
    });
}
