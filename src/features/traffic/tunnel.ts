import type { Socket } from 'node:net';

export interface TunnelEnds {
  caller: Socket;
  /** The bytes that the caller sent immediately after its handshake. */
  sent: Buffer;
  agent: Socket;
  /** The bytes that the agent sent immediately after it accepted the handshake. */
  answered: Buffer;
  /** The headers of the response that accepts the caller's handshake: alternating names and values. */
  headers: readonly string[];
  /** The longest time without a byte in either direction, in ms. */
  idleTimeoutMs: number;
}

/**
 * Accepts a WebSocket handshake, and then passes bytes on between both ends, no faster than each of them reads. Resolves when both
 * connections are closed. An end that has stopped sending may still receive, until nothing is sent for the idle time.
 */
export async function tunnel({ caller, sent, agent, answered, headers, idleTimeoutMs }: TunnelEnds): Promise<void> {
  const lines = headers.reduce((text, part, at) => text + (at % 2 === 0 ? `${part}: ` : `${part}\r\n`), '');
  caller.write(`HTTP/1.1 101 Switching Protocols\r\n${lines}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 'latin1');
  caller.setNoDelay(true);
  if (answered.length > 0) caller.write(answered);
  if (sent.length > 0) agent.write(sent);
  const over = Promise.all([closed(caller, agent), closed(agent, caller)]);
  for (const end of [caller, agent])
    end.setTimeout(idleTimeoutMs, () => {
      caller.destroy();
      agent.destroy();
    });
  caller.pipe(agent);
  agent.pipe(caller);
  await over;
}

/** Resolves when the connection is closed. The other connection then sends what is left, and is closed, too. */
function closed(one: Socket, other: Socket): Promise<void> {
  return new Promise((resolve) => {
    one.on('error', () => undefined);
    const end = () => {
      if (one.errored === null) other.destroySoon();
      else other.destroy();
      resolve();
    };
    if (one.closed) end();
    else one.once('close', end);
  });
}
