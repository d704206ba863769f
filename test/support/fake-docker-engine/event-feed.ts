import type { ServerResponse } from 'node:http';

import type { Labels } from './container.ts';

export interface EngineEventFilter {
  type?: string[];
  event?: string[];
}

/** The engine's events, sent to all listeners. */
export class EventFeed {
  private readonly listeners = new Map<ServerResponse, EngineEventFilter>();

  listen(response: ServerResponse, filter: EngineEventFilter): void {
    this.listeners.set(response, filter);
    response.on('close', () => this.listeners.delete(response));
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
  }

  emit(type: 'container' | 'volume', action: string, id: string, attributes: Labels): void {
    const time = Date.now();
    const event = {
      Type: type,
      Action: action,
      status: action,
      id,
      Actor: { ID: id, Attributes: attributes },
      time: Math.floor(time / 1_000),
    };
    const line = `${JSON.stringify(event)}\n`;
    for (const [response, filter] of this.listeners) if (allows(filter.type, type) && allows(filter.event, action)) response.write(line);
  }
}

const allows = (wanted: string[] | undefined, value: string) => wanted === undefined || wanted.includes(value);
