/*
 * A sandbox is a container with a volume that sleeps when nobody uses it. An agent is one, and a computer is another. The members of a kind's state that
 * the code here reads are called the same in every kind, and lie flat in it.
 */

/** A frozen sandbox keeps its memory; the container of a stopped one has ended. */
export type SleepDepth = 'frozen' | 'stopped';
export type SleepReason = 'requested' | 'idle' | 'deep' | 'memory';

/** The state of a sandbox of any kind, as built from its stream. */
export interface Sandbox {
  accountId: string;
  /** Generation of the desired container; containers of lower generations are stale and removed. */
  generation: number;
  /** The time at which the transition in progress fails; null if none is in progress. */
  deadlineAt: string | null;
  /** The earliest start of a container that replaces a crashed one. */
  restartAt: string | null;
  /** The depth of the requested sleep; null if there is none. */
  wantedSleep: SleepDepth | null;
  /** The depth of the current sleep; null if the sandbox is awake. */
  sleepDepth: SleepDepth | null;
  sleptAt: string | null;
  /** The time since which it has been up; null in every other status, so that only a run that was ready counts as steady. */
  activeSince: string | null;
  /** The number of consecutive exits. */
  crashes: number;
}

/** The time (ISO 8601) at which the engine did what is recorded; absent if only the time of the record is known. */
interface Dated {
  at?: string;
}

/** The observations of a saga that apply to every kind of sandbox. A late or repeated record changes nothing. */
export type LifecycleRecord =
  /** The container of that generation runs and is ready, so the transition in progress has succeeded. */
  | ({ type: 'RecordReady'; generation: number } & Dated)
  | ({ type: 'RecordStopped' } & Dated)
  | ({ type: 'RecordSlept'; depth: SleepDepth } & Dated)
  | ({
      type: 'RecordExit';
      generation: number;
      exitCode: number | null;
      oom: boolean;
      /** `removed` means that the container does not exist any more. */
      cause: 'exited' | 'removed';
      /** The installation's time within which a container must be ready, in seconds. */
      startTimeoutSeconds: number;
    } & Dated)
  | ({ type: 'RecordFailure'; kind: 'timeout' | 'runtime'; reason: string } & Dated)
  /** The volume contains more than it may, so the sandbox has to stop. */
  | { type: 'RecordVolumeFull'; reason: string }
  | { type: 'RecordDeleted' };
