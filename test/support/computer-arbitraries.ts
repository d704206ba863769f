import fc from 'fast-check';

import type { Computer } from '../../src/features/computers/aggregate/computer-state.rules.ts';
import { computerDecider, type ComputerCommand } from '../../src/features/computers/aggregate/computers.decider.ts';
import type { ComputerEvent, ComputerSettings } from '../../src/features/computers/aggregate/computers.events.ts';
import { NOON } from './decider-spec.ts';
import { plansOf, walkDecider, type Step } from './walk-decider.ts';

/** Generates random lives of computers: any commands of people and of the saga, in any order, while the clock moves. */

export const owner = 'account-1';
const deadlineAt = '2026-03-02T00:00:00.000Z';

export const settings: ComputerSettings = {
  name: 'desk',
  size: 'small',
  display: { width: 1280, height: 800 },
  timezone: 'UTC',
  idle_timeout_seconds: 900,
};
export const create: ComputerCommand = {
  type: 'CreateComputer',
  accountId: owner,
  endUserId: 'user_42',
  settings,
  variables: {},
  deployTimeoutSeconds: 600,
};
/** A value that is encrypted for nobody. */
export const sealed = (text: string) => ({ v: 1 as const, key: 1, iv: 'AAAAAAAAAAAAAAAA', ct: Buffer.from(text).toString('base64') });

// The owner is chosen most of the time, because another account's commands change nothing.
const accountId = fc.oneof({ weight: 9, arbitrary: fc.constant(owner) }, { weight: 1, arbitrary: fc.constant('account-2') });
const generation = fc.integer({ min: 0, max: 12 });
const depth = fc.constantFrom('frozen' as const, 'stopped' as const);
const startTimeoutSeconds = fc.integer({ min: 1, max: 3_600 });
/** The engine's clock may be a day behind or ahead of the service's. */
const at = fc.option(
  fc.integer({ min: -86_400_000, max: 86_400_000 }).map((ms) => new Date(NOON.getTime() + ms).toISOString()),
  { nil: undefined },
);

const asked: fc.Arbitrary<ComputerCommand> = fc.oneof(
  fc.record({
    type: fc.constant('ConfigureComputer' as const),
    accountId,
    changes: fc.oneof(
      fc.record({ name: fc.string() }),
      fc.record({ size: fc.constantFrom('small' as const, 'medium' as const, 'large' as const) }),
      fc.record({ variables: fc.dictionary(fc.constantFrom('A', 'B'), fc.constantFrom(null, sealed('x')), { noNullPrototype: true }) }),
    ),
  }),
  fc.record({
    type: fc.constant('WakeComputer' as const),
    accountId,
    startTimeoutSeconds,
    deployTimeoutSeconds: fc.constant(600),
    trigger: fc.constant('actions'),
    fromError: fc.boolean(),
  }),
  fc.record({
    type: fc.constant('SleepComputer' as const),
    accountId,
    deadlineAt: fc.constant(deadlineAt),
    depth,
    reason: fc.constantFrom('requested' as const, 'idle' as const, 'deep' as const, 'memory' as const),
  }),
);

const recorded: fc.Arbitrary<ComputerCommand> = fc.oneof(
  fc.record({
    type: fc.constant('RecordImage' as const),
    image: fc.constantFrom('sha256:1', 'sha256:2'),
    imageName: fc.constant('desk:1'),
  }),
  { weight: 4, arbitrary: fc.record({ type: fc.constant('RecordReady' as const), generation, at }) },
  fc.constant({ type: 'RecordStopped' as const }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('RecordSlept' as const), depth, at }) },
  fc.record({
    type: fc.constant('RecordExit' as const),
    generation,
    exitCode: fc.constant(1),
    oom: fc.boolean(),
    cause: fc.constantFrom('exited' as const, 'removed' as const),
    startTimeoutSeconds,
    at,
  }),
  fc.record({
    type: fc.constant('RecordFailure' as const),
    kind: fc.constantFrom('timeout' as const, 'runtime' as const),
    reason: fc.constant('late'),
  }),
  fc.constant({ type: 'RecordNoCapacity' as const, reason: 'full' }),
  fc.constant({ type: 'RecordVolumeFull' as const, reason: 'full' }),
  fc.constant({ type: 'RecordInputReleased' as const, owner: 'replica-1' }),
  fc.constant({
    type: 'RecordActed' as const,
    actions: { left_click: 2 },
    batches: 1,
    screenshots: 1,
    since: NOON.toISOString(),
    until: NOON.toISOString(),
  }),
);

const deletion: fc.Arbitrary<ComputerCommand> = fc.oneof(
  fc.record({ type: fc.constant('DeleteComputer' as const), accountId }),
  fc.constant({ type: 'RecordDeleted' as const }),
);

export const steps = plansOf<ComputerCommand>({ asked, recorded, deletion });

/** Directs the command at the computer's current generation. */
function aim(command: ComputerCommand, { generation: current }: Computer): ComputerCommand {
  return 'generation' in command ? { ...command, generation: current } : command;
}

/** Runs the plan from a computer's creation on. See `walkDecider`. */
export function walk(
  plan: Step<ComputerCommand>[],
  see: (before: Computer, after: Computer, events: ComputerEvent[], at: Date) => void,
): { state: Computer; log: ComputerEvent[] } {
  return walkDecider<Computer, ComputerCommand, ComputerEvent>({ decider: computerDecider, create, aim }, plan, see);
}
