import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { ChannelBroken, OtherVersion } from './frames.ts';

/** A name of a command or of a session. */
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;

/** Throws `RuntimeRefused` if the text can't name a command or a session. */
export function validateName(name: string): void {
  if (!NAME.test(name)) throw new RuntimeRefused('A name has 1 to 64 letters, digits and characters of "_.-".');
}

/** Converts an error of a channel into one of the runtime; returns any other error unchanged. */
export function runtimeError(error: unknown): unknown {
  if (!(error instanceof ChannelBroken)) return error;
  if (error instanceof OtherVersion)
    return new RuntimeRefused('The container has a supervisor of another release: restart the agent.', { cause: error });
  return error.cause instanceof RuntimeRefused || error.cause instanceof RuntimeUnavailable ? error.cause : new RuntimeUnavailable(error);
}
