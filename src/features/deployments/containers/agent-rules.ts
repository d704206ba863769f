import { isInTransit, type Agent, type AgentRecord } from '../../agents/index.ts';
import type { KindRules } from '../../../sandboxes/index.ts';
import { nextCheckAt, nextStep, type OwnStep } from './next-step.rules.ts';

/** The rules that the reconciler applies to an agent's state. */
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
  mayReuseObservation: ({ status }) => status === 'deploying',
  // A deployment fails immediately on an engine that can't run it, instead of waiting for another engine.
  waitsForEngine: ({ status }) => status !== 'deploying',
  failure: ({ status, deployment }, kind, reason) =>
    status === 'deploying'
      ? { type: 'RecordDeploymentFailure', deploymentId: deployment?.id ?? '', kind: 'runtime', reason }
      : { type: 'RecordFailure', kind, reason },
};
