import { applyDecorators, Param, type PipeTransform } from '@nestjs/common';
import { Transform } from 'class-transformer';
import { Allow } from 'class-validator';

import { agentNotFound } from '../aggregate/agents.errors.ts';

/** Returns the id in lower case. Throws `agent_not_found` for a text that is not a UUID, as for an unknown agent. */
export function agentIdOf(value: unknown): string {
  const id = typeof value === 'string' ? value.toLowerCase() : '';
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw agentNotFound();
  return id;
}

class AgentIdPipe implements PipeTransform<unknown, string> {
  transform(value: unknown): string {
    return agentIdOf(value);
  }
}

/** The path parameter `agentId`. */
export const AgentId = (): ParameterDecorator => Param('agentId', AgentIdPipe);

/** The member `agentId` of a DTO for the parameters of a path, for a route that takes more of them. */
export const AgentIdMember = (): PropertyDecorator =>
  applyDecorators(
    Allow(),
    Transform(({ value }: { value: unknown }) => agentIdOf(value)),
  );
