import type { EventDefinition } from './event-definition.ts';
import type { StoredEvent } from './event-store.ts';

// Each definition has a data type of its own; the catalogue holds all of them and uses none of these types.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyEventDefinition = EventDefinition<string, any>;

/** The log holds an event that this program does not know: a newer release wrote it. Such an event must never be skipped. */
export class UnknownEvent extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnknownEvent';
  }
}

/** Holds every event type of the service, its current version, and the upcasts from older versions. */
export class EventCatalogue {
  private readonly all = new Map<string, AnyEventDefinition>();

  /** Throws if a type is declared twice, or if an upcast from an older version is missing. */
  constructor(definitions: readonly AnyEventDefinition[]) {
    for (const definition of definitions) {
      if (this.all.has(definition.type)) throw new Error(`event type ${definition.type} is declared twice`);
      for (let version = 1; version < definition.version; version += 1)
        if (!definition.upcasts[version]) throw new Error(`event type ${definition.type} has no upcast from version ${version}`);
      this.all.set(definition.type, definition);
    }
  }

  get definitions(): readonly AnyEventDefinition[] {
    return [...this.all.values()];
  }

  /** Returns the version in which events of the type are written. Throws `UnknownEvent`. */
  versionOf(type: string): number {
    return this.find(type).version;
  }

  /** Returns the event in its current version; data of older versions goes through each upcast in turn. Throws `UnknownEvent`. */
  upcast(stored: StoredEvent): StoredEvent {
    const { version, upcasts } = this.find(stored.type);
    if (stored.schemaVersion === version) return stored;
    if (stored.schemaVersion > version)
      throw new UnknownEvent(
        `event ${stored.id} is ${stored.type} version ${stored.schemaVersion}, but this program knows version ${version} at most: it was written by a newer release`,
      );
    let data = stored.data;
    for (let from = stored.schemaVersion; from < version; from += 1) {
      const step = upcasts[from];
      if (!step) throw new UnknownEvent(`event ${stored.id} is ${stored.type} version ${stored.schemaVersion}, which never was`);
      data = step(data);
    }
    return { ...stored, schemaVersion: version, data };
  }

  /** Returns a sentence for people about what happened. Accepts events of any known version. */
  summaryOf(stored: StoredEvent): string {
    return this.find(stored.type).summary(this.upcast(stored).data);
  }

  private find(type: string): AnyEventDefinition {
    const definition = this.all.get(type);
    if (!definition) throw new UnknownEvent(`event type ${type} is not known to this program: it was written by a newer release`);
    return definition;
  }
}
