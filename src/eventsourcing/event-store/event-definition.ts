export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/**
 * The definition of one event type. Only the newest version is written; `upcasts[n]` is a pure function from the data of version n to
 * version n + 1, so that every stored version stays readable.
 */
export interface EventDefinition<Type extends string = string, Data = JsonObject> {
  type: Type;
  version: number;
  /** Returns a sentence for people, in the past tense, without secrets and without the actor's name: "Asked for a deployment of …". */
  summary: (data: Data) => string;
  upcasts: Record<number, (data: JsonObject) => JsonObject>;
}

/** Declares an event type: its version, its summary, and the upcasts from older versions. */
export function defineEvent<Data>() {
  return <Type extends string>(
    type: Type,
    summary: (data: Data) => string,
    version = 1,
    upcasts: Record<number, (data: JsonObject) => JsonObject> = {},
  ): EventDefinition<Type, Data> => ({ type, version, summary, upcasts });
}

/** The union of domain events that a record of definitions declares. */
export type EventsOf<Definitions> = {
  [K in keyof Definitions]: Definitions[K] extends EventDefinition<infer Type, infer Data> ? { type: Type; data: Data } : never;
}[keyof Definitions];

/** Returns whether the event is of a type that these definitions declare. */
export function isOneOf<Definitions extends Record<string, EventDefinition<string, never>>>(
  definitions: Definitions,
  event: { type: string },
): event is EventsOf<Definitions> {
  return Object.hasOwn(definitions, event.type);
}

/**
 * The shape of snapshots, which save applying long streams from their first event. Snapshots are a cache. They contain what the events
 * contain, and secrets only sealed.
 */
export interface SnapshotShape<State> {
  /** The name of the decider's snapshots, which is unique and never changes. */
  name: string;
  /**
   * The version of the shape. Raise it with each change of the shape, or of what `evolve` does with events; older snapshots are then
   * ignored.
   */
  version: number;
  /**
   * Returns the subject whose data key seals the contents of the state, given the state and the stream's id. When the subject is shredded,
   * its snapshots are removed.
   */
  subject?: (state: State, id: string) => string | null;
  /** Converts the state to JSON and back; absent if the state is plain JSON. */
  toJson?: (state: State) => Json;
  fromJson?: (json: Json) => State;
}

/** The rules of one aggregate: pure functions without a clock, ids or I/O. The command contains everything that a decision needs. */
export interface Decider<State, Command, Event extends { type: string; data: unknown }> {
  initialState: () => State;
  /** Returns the events that follow from the command, or none if it changes nothing. Throws `ProblemError` if a rule is broken. */
  decide: (command: Command, state: State, now: Date) => Event[];
  /**
   * Returns the state after the event; the same object if the event does not change it, as one of a type that the aggregate does not know. A
   * stored event has its time, ISO 8601, and one that was only decided has none.
   */
  evolve: (state: State, event: Event & { at?: string }) => State;
  /** The shape of snapshots; absent if streams stay short. */
  snapshot?: SnapshotShape<State>;
}
