/** A command that goes on in a container after the call that started it. */
export interface StartCommandRequest {
  /** The command's id, by which a start that is repeated is known. */
  commandId: string;
  argv: string[];
  /** The folder in which it starts; null stands for the agent's volume. */
  cwd: string | null;
  /** The variables beside the agent's own. */
  environment: Record<string, string>;
}

/** The state of a command. Its output is one stream of bytes, of which the newest 1 MiB is kept. */
export interface CommandState {
  status: 'running' | 'exited' | 'killed';
  /** The exit code; null while it runs. That of a killed one is 128 and the signal's number. */
  exitCode: number | null;
  /** The bytes that it has printed so far, which is the offset after the last one. */
  outputBytes: number;
  /** The bytes at the beginning of its output that are not kept any more, which is the offset of the first one that is. */
  droppedBytes: number;
}

/** A piece of a command's output. */
export interface CommandOutput {
  /** The offset of its first byte. It is greater than the one that was asked for if what stood there is not kept any more. */
  offset: number;
  bytes: Buffer;
}

export interface CommandOutputRequest {
  /** The offset of the first byte that is wanted. */
  offset: number;
  /** The most bytes that are wanted; null stands for no bound. */
  limit: number | null;
  /** True to go on with what is printed later, until the command ends. */
  follow: boolean;
}

/**
 * The commands that go on in running containers. They survive the service, freeze and thaw with their container, and end with it. At most 16 run
 * in a container; the last 50 that ended are kept. A call about an unknown command returns null or does nothing. Calls throw what those of
 * `ContainerRuntime` do, and the signal's reason if it aborts.
 */
export interface AgentCommands {
  /** Starts a command, once for each id. Throws `RuntimeRefused` if as many as may run do. */
  start(handle: string, request: StartCommandRequest, signal: AbortSignal): Promise<void>;
  /** Returns the states of all commands that the container knows, by id. */
  states(handle: string, signal: AbortSignal): Promise<ReadonlyMap<string, CommandState>>;
  /** Returns the state of a command once it has ended; null if it is not known. */
  ended(handle: string, commandId: string, signal: AbortSignal): Promise<CommandState | null>;
  /** Returns the output from an offset, which no slow reader holds up; null if the command is not known. */
  output(
    handle: string,
    commandId: string,
    request: CommandOutputRequest,
    signal: AbortSignal,
  ): Promise<AsyncIterable<CommandOutput> | null>;
  /**
   * Writes to the command's input, and ends it if `close`. Resolves when the command's pipe has taken the bytes; the signal bounds the wait for a
   * command that does not read. Returns false if the command is not known, has ended, or its input has.
   */
  write(handle: string, commandId: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<boolean>;
  /** Sends a signal by its name to the command's process group. Returns false if the command is not known or has ended. */
  signal(handle: string, commandId: string, name: NodeJS.Signals, signal: AbortSignal): Promise<boolean>;
  /** Kills the command with its descendants if it runs, and forgets it. */
  remove(handle: string, commandId: string, signal: AbortSignal): Promise<void>;
}
