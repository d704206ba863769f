import type { LoggerService, LogLevel } from '@nestjs/common';
import { type DestinationStream, type Logger as Pino, pino, stdSerializers } from 'pino';

/** Returns the parts of an error that may be logged: database drivers put row values into other members. */
function errorForLog(error: unknown): unknown {
  if (!(error instanceof Error)) return stdSerializers.err(error as Error);
  const { code } = error as { code?: unknown };
  return {
    type: error.name,
    message: error.message,
    ...(typeof code === 'string' ? { code } : {}),
    stack: error.stack,
    ...(error.cause instanceof Error ? { cause: error.cause.message } : {}),
  };
}

type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

/**
 * The bytes of lines that are written together, and the time in ms for which a line waits for others: a write costs a request more than its
 * line does.
 */
const TOGETHER_BYTES = 8_192;
const TOGETHER_MS = 100;

/** Creates a logger that writes JSON lines to stdout. All lines are written before the process ends by itself. */
export function createPino(level: string, destination?: DestinationStream): Pino {
  const options = { level, base: undefined, timestamp: pino.stdTimeFunctions.isoTime, serializers: { err: errorForLog } };
  return pino(options, destination ?? pino.destination({ sync: false, minLength: TOGETHER_BYTES, periodicFlush: TOGETHER_MS }));
}

/** The parts of Nest that log every module and route at the start. */
const chatty = new Set<unknown>(['InstanceLoader', 'NestApplication', 'NestFactory', 'RouterExplorer', 'RoutesResolver']);

/** Nest's logger on pino. It takes `new Logger('Part').log({ msg, …fields })` or a plain text. */
export class PinoLogger implements LoggerService {
  constructor(private readonly sink: Pino) {}

  log(message: unknown, ...rest: unknown[]): void {
    this.write(chatty.has(rest.at(-1)) ? 'debug' : 'info', message, rest);
  }
  error(message: unknown, ...rest: unknown[]): void {
    this.write('error', message, rest);
  }
  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warn', message, rest);
  }
  debug(message: unknown, ...rest: unknown[]): void {
    this.write('debug', message, rest);
  }
  verbose(message: unknown, ...rest: unknown[]): void {
    this.write('trace', message, rest);
  }
  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }
  setLogLevels(_levels: LogLevel[]): void {
    // The configuration sets the level.
  }

  private writeFields(level: Level, { message, ...fields }: Record<string, unknown>): void {
    if (typeof message === 'string') this.sink[level](fields, message);
    else this.sink[level](fields);
  }

  /** Writes a line. Nest passes the logger's name last, and for errors the stack before it. */
  private write(level: Level, message: unknown, rest: unknown[]): void {
    const part = rest.at(-1);
    const fields = typeof part === 'string' ? { part } : {};
    const cause = rest.find((item) => item instanceof Error);
    const stack = rest.length > 1 && typeof rest[0] === 'string' ? { stack: rest[0] } : {};
    if (message instanceof Error) this.sink[level]({ ...fields, err: message });
    else if (typeof message === 'object' && message !== null) this.writeFields(level, { ...fields, ...message });
    else this.sink[level]({ ...fields, ...stack, ...(cause ? { err: cause } : {}) }, String(message));
  }
}
