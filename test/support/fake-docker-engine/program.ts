import type { Socket } from 'node:net';

/** A program's view of the container that it runs in. */
export interface ProgramRun {
  environment: Record<string, string>;
  /** The command that was requested from the engine for the container. */
  command: readonly string[];
  /** The memory of the program, which is empty at each start. */
  memory: Map<string, unknown>;
  /** The files of the agent's volume, which exist as long as the volume. */
  volume: Map<string, Buffer>;
  print(stream: 'stdout' | 'stderr', bytes: Buffer): void;
  /** Ends the container; does nothing if it has ended. */
  exit(code: number): void;
  isOver(): boolean;
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

/** A stand-in for the program of an image. All containers of the image share the object. */
export interface FakeProgram {
  /** The value false means that its port refuses connections, so that it never becomes ready. */
  listens: boolean;
  /** Called at each start of a container. */
  start?(run: ProgramRun): void;
  /** Answers one HTTP request. A rejection is answered with 500. */
  answer(run: ProgramRun, request: ProgramRequest): Promise<ProgramAnswer> | ProgramAnswer;
  /** Serves a connection to its port byte by byte, instead of `answer`. */
  connection?(run: ProgramRun, socket: Socket): void;
  /** Returns the exit code after a SIGTERM, or null if the program ignores the signal; 143 if absent. */
  terminate?(run: ProgramRun): number | null;
}

export interface MessagesProgramOptions {
  /** The time that a reply takes, in ms. */
  replyMs?: number;
  listens?: boolean;
  reply?: (text: string) => string;
  /** Called with each message before it is answered. */
  onMessage?: (message: { id: string; text: string }) => void;
}

/** Makes a program that speaks Mooring's agent protocol: it is healthy at once, and answers each message. */
export function messagesProgram(options: MessagesProgramOptions = {}): FakeProgram {
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
