export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/**
 * What the catalogue knows of one event type. Only the newest version is written; `upcasts[n]` turns the data of
 * version n into version n + 1, purely, so that every stored version can be read for ever.
 */
export interface EventDefinition<Type extends string = string, Data = JsonObject> {
  type: Type;
  version: number;
  /** A sentence for people, past tense, without secrets and without the actor's name: "Asked for a deployment of …". */
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

/** Whether the event is of a type that these definitions declare. */
export function isOneOf<Definitions extends Record<string, EventDefinition<string, never>>>(
  definitions: Definitions,
  event: { type: string },
): event is EventsOf<Definitions> {
  return Object.hasOwn(definitions, event.type);
}

/**
 * How states of long streams are kept as snapshots, so that they need not be folded from the first event. Snapshots are a cache. They hold
 * what the events hold, and secrets only sealed.
 */
export interface SnapshotShape<State> {
  /** One name for one decider, for ever. */
  name: string;
  /** Raised with each change of the state's form, or of what `evolve` makes of events: older snapshots are ignored then. */
  version: number;
  /** Whose data key seals what the state holds, from the state and the stream's id; its snapshots go together with it. */
  subject?: (state: State, id: string) => string | null;
  /** The state as JSON and back, where it is more than JSON as it is. */
  toJson?: (state: State) => Json;
  fromJson?: (json: Json) => State;
}

/** The rules of one aggregate, pure: no clock, no ids, no I/O. What a decision needs comes in as data. */
export interface Decider<State, Command, Event extends { type: string; data: unknown }> {
  initialState: () => State;
  /** The events that follow from the command, none where nothing changes; throws `Refusal` where a rule is broken. */
  decide: (command: Command, state: State, now: Date) => Event[];
  /** Folds one event in. An event type that the aggregate does not know leaves the state as it is. */
  evolve: (state: State, event: Event) => State;
  /** Absent where streams stay short. */
  snapshot?: SnapshotShape<State>;
}
