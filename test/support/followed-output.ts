/** An event of a stream of a command's output. */
export interface OutputEvent {
  id: number;
  event: string;
  data: { offset: number; text?: string; base64?: string; status?: string; exitCode?: number | null; code?: string };
}

/** One reader of a command's output, which can disconnect. */
export class FollowedOutput {
  readonly events: OutputEvent[] = [];
  /** Resolves when the stream has ended in any way. */
  readonly over: Promise<void>;
  /** The status of the response; 0 before it has arrived. */
  status = 0;
  private readonly leaving = new AbortController();

  /** Follows the output at the address, from the offset on. */
  constructor(url: string, credential: string, from: number | null = null) {
    const headers = {
      authorization: `Bearer ${credential}`,
      accept: 'text/event-stream',
      ...(from === null ? {} : { 'last-event-id': String(from) }),
    };
    this.over = this.read(url, headers).catch(() => undefined);
  }

  /** The output so far. */
  get text(): string {
    return this.events
      .map(({ data }) => data.text ?? (data.base64 === undefined ? '' : Buffer.from(data.base64, 'base64').toString()))
      .join('');
  }

  /** The offset to continue from. */
  get next(): number {
    return this.events.at(-1)?.id ?? 0;
  }

  get last(): OutputEvent | undefined {
    return this.events.at(-1);
  }

  leave(): Promise<void> {
    this.leaving.abort();
    return this.over;
  }

  private async read(url: string, headers: Record<string, string>): Promise<void> {
    const response = await fetch(url, { headers, signal: this.leaving.signal });
    this.status = response.status;
    let unread = '';
    for await (const bytes of response.body ?? []) {
      unread += Buffer.from(bytes as Uint8Array).toString('latin1');
      const frames = unread.split('\n\n');
      unread = frames.pop() ?? '';
      for (const frame of frames) {
        const member = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(Buffer.from(frame, 'latin1').toString())?.[1];
        const data = member('data');
        if (data !== undefined)
          this.events.push({
            id: Number(member('id')),
            event: member('event') ?? '',
            data: JSON.parse(data) as OutputEvent['data'],
          });
      }
    }
  }
}
