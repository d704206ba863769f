import { isInTransit, type Agent, type AgentRecord } from '../../agents/index.ts';
import type { KindRules } from '../../../sandboxes/index.ts';
import { nextCheckAt, nextStep, type OwnStep } from './next-step.decider.ts';

/** The rules by which the reconciler reads an agent's state. */
export const agentRules: KindRules<Agent, AgentRecord, OwnStep> = {
  nextStep,
  nextCheckAt,
  isInTransit,
  isBeingDeleted: ({ status }) => status === 'deleting',
  isGone: ({ status }) => status === 'deleted',
  isOutdated: (before, now) =>
    now.status !== before.status || now.generation !== before.generation || now.deployment?.id !== before.deployment?.id,
  statusOf: ({ status }) => status,
  wantedStates({ status, sleepDepth, wantedSleep }) {
    if (status === 'active') return ['running'];
    return status === 'sleeping' && sleepDepth === 'frozen' && wantedSleep !== 'stopped' ? ['frozen'] : [];
  },
  keepsLook: ({ status }) => status === 'deploying',
  // A deployment that somebody just asked for need not wait for another engine.
  waitsForEngine: ({ status }) => status !== 'deploying',
  failure: ({ status, deployment }, kind, reason) =>
    status === 'deploying'
      ? { type: 'RecordDeploymentFailure', deploymentId: deployment?.id ?? '', kind: 'runtime', reason }
      : { type: 'RecordFailure', kind, reason },
};
