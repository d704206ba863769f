import type { Sealed } from '../../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../../eventsourcing/event-store/event-definition.ts';
import type { AgentEgress } from '../../../kernel/network/allow-list.ts';
import type { SleepDepth, SleepReason } from '../../../sandboxes/lifecycle/sandbox.rules.ts';

/** The size of a computer, which defines its processors and its memory. */
export type ComputerSize = 'small' | 'medium' | 'large';
/** The size of the screen in pixels. */
export type Display = { width: number; height: number };
/**
 * The state that a computer woke from: it was just created (`nothing`), slept, or had crashed. After `awake` it had been asked to sleep and did
 * not yet, so that its time awake continues.
 */
export type WokeAfter = 'nothing' | 'awake' | SleepDepth | 'crash';
/**
 * The reason why a computer is in `error`: it was not ready in time, the engine refused, it keeps crashing, its volume is full, or the
 * machine had no memory for it.
 */
export type ComputerFailureKind = 'timeout' | 'runtime' | 'crash' | 'volume' | 'capacity';

export type ComputerSettings = {
  name: string;
  size: ComputerSize;
  display: Display;
  /** The IANA name of the time zone. */
  timezone: string;
  /** The idle time in seconds; 0 means that the computer never sleeps automatically. */
  idle_timeout_seconds: number;
  /** The part of the network that the computer may reach; absent or null means all that the operator allows. */
  egress?: AgentEgress | null;
};

/** The changes that a caller may make; the values of variables are encrypted, and a null removes the variable. */
export type ComputerChanges = Partial<Omit<ComputerSettings, 'timezone'>> & { variables?: Record<string, Sealed | null> };

const reasonText: Record<SleepReason, string> = {
  requested: '',
  idle: ', because it was not used',
  deep: ', because it slept for long',
  memory: ', because memory is short',
};
const depthText = (depth: SleepDepth) => (depth === 'frozen' ? 'its windows and memory kept' : 'its container stopped');
const wokeAfterText: Record<WokeAfter, string> = {
  nothing: 'it is new',
  awake: 'it had not slept yet',
  frozen: 'it had been frozen',
  stopped: 'it had been stopped',
  crash: 'it had ended by itself',
};

/** Events about a computer's creation, settings and deletion. */
const existenceEvents = {
  ComputerCreated: defineEvent<
    ComputerSettings & {
      account_id: string;
      end_user_id: string;
      /** The variables of its programs, encrypted. */
      variables: Record<string, Sealed>;
      generation: number;
      deadline_at: string;
      requested_at: string;
    }
  >()('ComputerCreated', ({ name, size, end_user_id }) => `Created the ${size} computer "${name}" of the end user ${end_user_id}`),
  ComputerConfigured: defineEvent<{ changes: ComputerChanges }>()(
    'ComputerConfigured',
    ({ changes }) => `Changed ${Object.keys(changes).join(', ')}`,
  ),
  ComputerDeletionRequested: defineEvent<{ requested_at: string }>()(
    'ComputerDeletionRequested',
    () => 'Asked for the computer to be deleted',
  ),
  ComputerDeleted: defineEvent<Record<string, never>>()(
    'ComputerDeleted',
    () => 'Deleted the computer: container, volume and data key are gone',
  ),
};

/** Events about the container of a computer: it wakes, sleeps, ends and fails. */
const lifecycleEvents = {
  ComputerImageResolved: defineEvent<{
    /** The image of computers on the engine, by its id or digest. */
    image: string;
    image_name: string;
    /** The generation of the container that is created from it. */
    generation: number;
  }>()('ComputerImageResolved', ({ image_name }) => `Had the image ${image_name} ready`),
  ComputerWakeRequested: defineEvent<{ trigger: string; generation: number; deadline_at: string; requested_at: string }>()(
    'ComputerWakeRequested',
    ({ trigger }) => `Asked the computer to wake (${trigger})`,
  ),
  ComputerWoke: defineEvent<{ after: WokeAfter; generation: number; started_at: string; size: ComputerSize }>()(
    'ComputerWoke',
    ({ after }) => `The computer is awake (${wokeAfterText[after]})`,
  ),
  ComputerSleepRequested: defineEvent<{ depth: SleepDepth; reason: SleepReason; deadline_at: string; requested_at: string }>()(
    'ComputerSleepRequested',
    ({ depth, reason }) => `Asked the computer to sleep, ${depthText(depth)}${reasonText[reason]}`,
  ),
  ComputerSlept: defineEvent<{ depth: SleepDepth; slept_at: string }>()(
    'ComputerSlept',
    ({ depth }) => `The computer sleeps, ${depthText(depth)}`,
  ),
  ComputerExited: defineEvent<{
    generation: number;
    exit_code: number | null;
    oom: boolean;
    /** `removed` means that the container does not exist any more. */
    cause: 'exited' | 'removed';
    exited_at: string;
    /** The number of consecutive exits, including this one. */
    crashes: number;
    /** The generation that replaces the container and when it may start; null if it crashed too often, which puts the computer in `error`. */
    restart: { generation: number; at: string; deadline_at: string } | null;
  }>()('ComputerExited', ({ cause, exit_code, oom, restart }) => {
    const what =
      cause === 'removed' ? 'The container was removed from outside' : `The container ended with exit code ${exit_code ?? 'unknown'}`;
    return `${what}${oom ? ', out of memory' : ''}${restart ? '; it is made again' : '; it keeps crashing and is not started again'}`;
  }),
  ComputerFailed: defineEvent<{ during: string; kind: ComputerFailureKind; reason: string; failed_at: string }>()(
    'ComputerFailed',
    ({ during, reason }) => `The computer failed while ${during}: ${reason}`,
  ),
};

/** Events about the use of a computer. They count, and hold nothing of what was typed, clicked or seen. */
export const useEvents = {
  ComputerActed: defineEvent<{
    /** The number of actions by name. */
    actions: Record<string, number>;
    batches: number;
    screenshots: number;
    since: string;
    until: string;
  }>()('ComputerActed', ({ actions, screenshots }) => {
    const done = Object.entries(actions).map(([name, count]) => `${count} × ${name}`);
    return `Did ${[...done, ...(screenshots === 0 ? [] : [`${screenshots} × picture`])].join(', ') || 'nothing'}`;
  }),
  /** A replica ended while it worked on the computer, so the keys and buttons that it may have left pressed were released. */
  ComputerInputReleased: defineEvent<{ owner: string }>()(
    'ComputerInputReleased',
    () => 'Released all keys and buttons, because a process of the service ended while the computer was in use',
  ),
};

export const computerEvents = { ...existenceEvents, ...lifecycleEvents, ...useEvents };

export type ComputerEvent = EventsOf<typeof computerEvents>;
