import { ProblemError, type ProblemFacts } from '../../../kernel/errors/problem-error.ts';
import { DesktopBusy } from '../../../desktop/driver/batch-queue.ts';
import { DesktopTimeout, DesktopUnreachable } from '../../../desktop/rfb/desktop-errors.ts';
import { OutsideOfScreen } from '../../../desktop/screen/encode-image.ts';

/** Returns the refusal for an error of the desktop; any other error is returned unchanged. */
export function desktopRefusal(error: unknown): unknown {
  if (error instanceof DesktopBusy) return new ProblemError('busy', error.message, { retryAfterSeconds: error.retryAfterSeconds });
  if (error instanceof DesktopUnreachable || error instanceof DesktopTimeout) return new ProblemError(error.code, error.message);
  if (error instanceof OutsideOfScreen) return outside(error);
  return error;
}

function outside({ code, message }: OutsideOfScreen): ProblemError {
  const facts: ProblemFacts = { errors: [{ field: 'region', message: message.replace(/^It /, '').replace(/\.$/, '') }] };
  return new ProblemError(code, message, facts);
}
