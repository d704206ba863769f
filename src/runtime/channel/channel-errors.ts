import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { ChannelBroken, OtherVersion } from './frames.ts';

/** A name of a command that goes on, or of a session. */
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;

/** Throws `RuntimeRefused` for what can't name a command or a session. */
export function refuseOtherName(name: string): void {
  if (!NAME.test(name)) throw new RuntimeRefused('A name has 1 to 64 letters, digits and characters of "_.-".');
}

/** Returns the runtime's error for one of a channel, and any other error as it is. */
export function runtimeError(error: unknown): unknown {
  if (!(error instanceof ChannelBroken)) return error;
  if (error instanceof OtherVersion)
    return new RuntimeRefused('The container has a supervisor of another release: restart the agent.', { cause: error });
  return error.cause instanceof RuntimeRefused || error.cause instanceof RuntimeUnavailable ? error.cause : new RuntimeUnavailable(error);
}
