import type { Socket } from 'node:net';

export interface TunnelEnds {
  caller: Socket;
  /** The bytes that the caller sent right after its handshake. */
  sent: Buffer;
  agent: Socket;
  /** The bytes that the agent sent right after it took the handshake. */
  answered: Buffer;
  /** The headers with which the caller is told that the agent took the handshake: names and values in turn. */
  headers: readonly string[];
  /** The longest time without a byte in either direction, ms. */
  idleTimeoutMs: number;
}

/**
 * Answers a WebSocket handshake and then passes bytes on between the two ends, no faster than each of them reads. Resolves when both
 * connections are closed. An end that stops sending may still be sent to, until nothing moves for the idle time.
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

/** Resolves when the connection is closed. What the other one still has to send is sent then, and it is closed, too. */
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
