import type { ContainerView } from '../../../runtime/container.ts';
import { releaseFailed } from './failures.ts';

const ended = (more: Partial<ContainerView>): ContainerView => ({
  agentId: 'a1',
  generation: 1,
  deploymentId: 'd1',
  handle: 'a1-g1',
  state: 'exited',
  exitCode: 3,
  oomKilled: false,
  startedAt: null,
  finishedAt: null,
  ...more,
});

it('says that a release command may have run, if its exit code leaves that open', () => {
  expect(releaseFailed('d1', ended({}), 'no such table')).toMatchObject({
    reason: 'The release command failed (exit code 3): no such table',
  });
  expect(releaseFailed('d1', ended({ exitCode: 125, notBegun: true }), '')).toMatchObject({
    reason:
      'The release command failed (exit code 125, with which it also ends if it could not begin; it may have run, so it is not run again).',
  });
});
