/** A command that keeps running in a container after the call that started it. */
export interface StartCommandRequest {
  /** The command's id, by which a repeated start is recognised. */
  commandId: string;
  argv: string[];
  /** The folder in which it starts; null means the agent's volume. */
  cwd: string | null;
  /** The variables in addition to the agent's own. */
  environment: Record<string, string>;
}

/** The state of a command. Its output is one stream of bytes, of which the newest 1 MiB is kept. */
export interface CommandState {
  status: 'running' | 'exited' | 'killed';
  /** The exit code; null while it runs. That of a killed command is 128 plus the number of the signal. */
  exitCode: number | null;
  /** The number of bytes that it has printed so far, which is the offset after the last one. */
  outputBytes: number;
  /** The number of bytes at the beginning of its output that are not kept any more, which is the offset of the first kept byte. */
  droppedBytes: number;
}

/** A piece of a command's output. */
export interface CommandOutput {
  /** The offset of its first byte. It is greater than the requested one if the bytes there are not kept any more. */
  offset: number;
  bytes: Buffer;
}

export interface CommandOutputRequest {
  /** The offset of the first requested byte. */
  offset: number;
  /** The most bytes to return; null means no bound. */
  limit: number | null;
  /** The value is true to continue with later output, until the command ends. */
  follow: boolean;
}

/**
 * The commands that keep running in running containers. They survive the service, freeze and thaw with their container, and end with it. At
 * most 16 run in a container; the last 50 that ended are kept. A call about an unknown command returns null or does nothing. Calls throw
 * the errors of `ContainerRuntime`, and the signal's reason if it aborts.
 */
export interface AgentCommands {
  /** Starts a command, once for each id. Throws `RuntimeRefused` if the most allowed commands are running. */
  start(handle: string, request: StartCommandRequest, signal: AbortSignal): Promise<void>;
  /** Returns the states of all commands that the container knows, by id. */
  states(handle: string, signal: AbortSignal): Promise<ReadonlyMap<string, CommandState>>;
  /** Returns the state of a command once it has ended; null if the command is unknown. */
  ended(handle: string, commandId: string, signal: AbortSignal): Promise<CommandState | null>;
  /** Returns the output from an offset on; null if the command is unknown. A slow reader does not delay the command. */
  output(
    handle: string,
    commandId: string,
    request: CommandOutputRequest,
    signal: AbortSignal,
  ): Promise<AsyncIterable<CommandOutput> | null>;
  /**
   * Writes to the command's input, and ends it if `close`. Resolves once the command's pipe has accepted the bytes; the signal bounds the
   * wait for a command that does not read. Returns false if the command is unknown or has ended, or its input has ended.
   */
  write(handle: string, commandId: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<boolean>;
  /** Sends a signal, given by its name, to the command's process group. Returns false if the command is unknown or has ended. */
  signal(handle: string, commandId: string, name: NodeJS.Signals, signal: AbortSignal): Promise<boolean>;
  /** Kills the command with its descendants if it runs, and deletes its record. */
  remove(handle: string, commandId: string, signal: AbortSignal): Promise<void>;
}
