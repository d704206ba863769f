import { once } from 'node:events';

import { WebSocket } from 'ws';

/** The encodings that noVNC requests: Tight with JPEG, and the pseudo-encodings for sizes that it supports. */
const ENCODINGS = [7, 1, 0, -26, -254, -224, -223];
const SCREEN = { width: 1_280, height: 800 };
/** A browser requests the next change after drawing one. */
const DRAWING_MS = 10;

/** Concurrent viewers of a desktop, each with a browser and a session of its own. These browsers draw nothing. */
export class DesktopViewers {
  bytes = 0;
  private readonly sockets: WebSocket[] = [];

  /** Opens the link of a session, and has the desktop send each change of the screen. */
  async join(link: string): Promise<void> {
    const { origin, pathname } = new URL(link);
    const answer = await fetch(`${link}/tickets`, { method: 'POST', headers: { origin } });
    const { ticket } = (await answer.json()) as { ticket?: string };
    if (ticket === undefined) throw new Error(`the ticket was refused: ${answer.status}`);
    const cookie = answer.headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';
    const socket = new WebSocket(`${origin.replace('http', 'ws')}${pathname}/socket?ticket=${ticket}`, { headers: { origin, cookie } });
    this.sockets.push(socket);
    socket.on('error', () => undefined);
    let isDrawing = false;
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (!isBinary) return;
      this.bytes += data.length;
      if (isDrawing) return;
      isDrawing = true;
      setTimeout(() => {
        isDrawing = false;
        socket.send(changes);
      }, DRAWING_MS);
    });
    await once(socket, 'open');
    for (const message of [Buffer.from('RFB 003.008\n'), Buffer.of(1), Buffer.of(1), encodings(), updates(0)]) socket.send(message);
  }

  /** The number of those who are still connected. */
  get open(): number {
    return this.sockets.filter(({ readyState }) => readyState === WebSocket.OPEN).length;
  }

  close(): void {
    for (const socket of this.sockets) socket.terminate();
  }
}

function encodings(): Buffer {
  const message = Buffer.alloc(4 + 4 * ENCODINGS.length);
  message[0] = 2;
  message.writeUInt16BE(ENCODINGS.length, 2);
  for (const [at, encoding] of ENCODINGS.entries()) message.writeInt32BE(encoding, 4 + 4 * at);
  return message;
}

/** Returns a request for the screen, or for what changes of it. */
function updates(isIncremental: number): Buffer {
  const message = Buffer.of(3, isIncremental, 0, 0, 0, 0, 0, 0, 0, 0);
  message.writeUInt16BE(SCREEN.width, 6);
  message.writeUInt16BE(SCREEN.height, 8);
  return message;
}

const changes = updates(1);
