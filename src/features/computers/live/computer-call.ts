import { ApiProperty, ApiQuery } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsBoolean, IsOptional } from 'class-validator';

import type { RequestContext } from '../../../http/server/request-context.ts';
import type { CommandContext } from '../../../kernel/context/command-context.ts';

/** A call of somebody to a computer. */
export interface ComputerCall {
  context: CommandContext;
  accountId: string;
  computerId: string;
  /** False refuses a computer that is not awake. */
  wake: boolean;
  /** Aborts when the caller has gone. */
  signal: AbortSignal;
  /** Hears that the computer had to be woken. */
  onWoken: () => void;
}

/** Allows `true` or `false` in a query string. */
export function BooleanQuery(): PropertyDecorator {
  const rules = [
    IsOptional(),
    Transform(({ value }: { value: unknown }) => (value === 'true' ? true : value === 'false' ? false : value)),
    IsBoolean({ message: 'must be true or false' }),
    ApiProperty({ type: 'boolean', required: false }),
  ];
  return (target, property) => rules.forEach((rule) => rule(target, property));
}

export class WakeQueryDto {
  /** False refuses a computer that is not awake with `computer_asleep` in place of waking it. */
  @BooleanQuery()
  wake?: boolean;
}

/** Describes the same query parameter for a route that reads no other. */
export const WakeQuery = (): MethodDecorator =>
  ApiQuery({
    name: 'wake',
    required: false,
    type: Boolean,
    description: 'False refuses a computer that is not awake in place of waking it.',
  });

export function computerCall(computerId: string, call: RequestContext): ComputerCall {
  const { context, accountId, mayWake: wake } = call;
  return { context, accountId, computerId, wake, signal: call.goneSignal(), onWoken: () => call.setAgentWoken() };
}
