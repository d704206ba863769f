import type { Socket } from 'node:net';

/** What a program sees of the container that it runs in. */
export interface ProgramRun {
  environment: Record<string, string>;
  /** What the container runs, as the engine was asked for it. */
  command: readonly string[];
  /** Fresh at each start. */
  memory: Map<string, unknown>;
  /** Kept for as long as the agent's volume stands. */
  volume: Map<string, Buffer>;
  print(stream: 'stdout' | 'stderr', bytes: Buffer): void;
  /** Ends the container; nothing where it has ended. */
  exit(code: number): void;
}

export interface ProgramRequest {
  method: string;
  path: string;
  body: Buffer;
}

export interface ProgramAnswer {
  status: number;
  body: string | Buffer;
}

/** What stands in for the program of an image. All containers of the image share the object. */
export interface StandInProgram {
  /** False: its port refuses connections, so that it never becomes ready. */
  listens: boolean;
  /** Called at each start of a container. */
  start?(run: ProgramRun): void;
  /** One HTTP request. A rejection is answered with 500. */
  answer(run: ProgramRun, request: ProgramRequest): Promise<ProgramAnswer> | ProgramAnswer;
  /** A connection to its port, which the program then serves byte by byte itself; no `answer` is asked for. */
  connection?(run: ProgramRun, socket: Socket): void;
  /** The exit code after a SIGTERM; null: it does not heed the signal. Where absent: 143. */
  terminate?(run: ProgramRun): number | null;
}

export interface MessagesProgramOptions {
  /** The time that a reply takes, ms. */
  replyMs?: number;
  listens?: boolean;
  reply?: (text: string) => string;
  /** Told of each message before it is answered. */
  onMessage?: (message: { id: string; text: string }) => void;
}

/** A program that speaks Mooring's agent protocol: it is healthy at once, and answers each message. */
export function messagesProgram(options: MessagesProgramOptions = {}): StandInProgram {
  const { replyMs = 0, listens = true, reply = () => 'heard', onMessage } = options;
  return {
    listens,
    async answer(_run, { method, path, body }) {
      if (path === '/healthz') return { status: 200, body: 'ok' };
      if (path !== '/messages' || method !== 'POST') return { status: 404, body: 'there is no such route' };
      const message = JSON.parse(body.toString('utf8')) as { id: string; text: string };
      onMessage?.(message);
      if (replyMs > 0) await new Promise((resolve) => setTimeout(resolve, replyMs));
      return { status: 200, body: JSON.stringify({ response: reply(message.text) }) };
    },
  };
}
