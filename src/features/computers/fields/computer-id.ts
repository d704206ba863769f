import { Param, type PipeTransform } from '@nestjs/common';

import { ProblemError } from '../../../kernel/errors/problem-error.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns the id in lower case. Throws `computer_not_found` for a text that is not a UUID, as for an unknown computer. */
class ComputerIdPipe implements PipeTransform<unknown, string> {
  transform(value: unknown): string {
    const id = typeof value === 'string' ? value.toLowerCase() : '';
    if (!UUID.test(id)) throw new ProblemError('computer_not_found', 'There is no such computer.');
    return id;
  }
}

/** The path parameter `computerId`. */
export const ComputerId = (): ParameterDecorator => Param('computerId', ComputerIdPipe);
