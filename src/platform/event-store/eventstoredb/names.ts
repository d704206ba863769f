import type { EventClass } from '../event-store.ts';

/** What streams are called on the server: as in the port, behind the installation's prefix and a dot, where it has one. */
export class Names {
  readonly #lead: string;
  readonly #core: RegExp;
  /** For a subscription's filter on the server's side; there it is .NET that reads it. */
  readonly filters: Record<EventClass, { regex: string }>;

  constructor(prefix: string | null) {
    this.#lead = prefix === null ? '' : `${prefix}.`;
    const lead = this.#lead.replace('.', '\\.');
    // Without a prefix all streams but the server's own are this installation's.
    this.filters = { core: { regex: lead === '' ? '^(?!log-)[^$]' : `^${lead}(?!log-)` }, log: { regex: `^${lead}log-` } };
    this.#core = new RegExp(this.filters.core.regex);
  }

  /** Of a stream, or of its metadata (`$$…`). */
  toServer(stream: string): string {
    return stream.startsWith('$$') ? `$$${this.#lead}${stream.slice(2)}` : `${this.#lead}${stream}`;
  }

  /** As the port calls it; others' names stay as they are. */
  fromServer(stream: string): string {
    return this.classOf(stream) === null ? stream : stream.slice(this.#lead.length);
  }

  /** The class of a stream by its name on the server; null where it is none of this installation's. */
  classOf(stream: string): EventClass | null {
    if (stream.startsWith(`${this.#lead}log-`)) return 'log';
    return this.#core.test(stream) ? 'core' : null;
  }
}
