import { Param, type PipeTransform } from '@nestjs/common';

import { agentNotFound } from './agent.decider.ts';

/** Returns the id in lower case. Throws `agent_not_found` for a text that is no UUID, as for an unknown agent. */
class AgentIdPipe implements PipeTransform<unknown, string> {
  transform(value: unknown): string {
    const id = typeof value === 'string' ? value.toLowerCase() : '';
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw agentNotFound();
    return id;
  }
}

/** The path parameter `agentId`. */
export const AgentId = (): ParameterDecorator => Param('agentId', AgentIdPipe);
