import type { EventClass } from '../event-store.ts';

/** Converts the port's stream names to those on the server, which begin with the installation's prefix and a dot if it has one. */
export class Names {
  private readonly lead: string;
  private readonly core: RegExp;
  /** The filters of subscriptions. The server evaluates them as .NET regular expressions. */
  readonly filters: Record<EventClass, { regex: string }>;

  constructor(prefix: string | null) {
    this.lead = prefix === null ? '' : `${prefix}.`;
    const lead = this.lead.replace('.', '\\.');
    // Without a prefix, all streams belong to this installation, except the server's own.
    this.filters = { core: { regex: lead === '' ? '^(?!log-)[^$]' : `^${lead}(?!log-)` }, log: { regex: `^${lead}log-` } };
    this.core = new RegExp(this.filters.core.regex);
  }

  /** Returns the server's name of a stream, or of its metadata stream (`$$…`). */
  toServer(stream: string): string {
    return stream.startsWith('$$') ? `$$${this.lead}${stream.slice(2)}` : `${this.lead}${stream}`;
  }

  /** Returns the port's name of a stream; names of other installations stay unchanged. */
  fromServer(stream: string): string {
    return this.classOf(stream) === null ? stream : stream.slice(this.lead.length);
  }

  /** Returns the class of a stream by its name on the server; null if the stream belongs to another installation. */
  classOf(stream: string): EventClass | null {
    if (stream.startsWith(`${this.lead}log-`)) return 'log';
    return this.core.test(stream) ? 'core' : null;
  }
}
