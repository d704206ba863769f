import { Param, type PipeTransform } from '@nestjs/common';

import { agentNotFound } from './agent.decider.ts';

/** In lower case; what is no UUID is no agent, and is answered as an unknown one is. */
class AgentIdPipe implements PipeTransform<unknown, string> {
  transform(value: unknown): string {
    const id = typeof value === 'string' ? value.toLowerCase() : '';
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw agentNotFound();
    return id;
  }
}

/** The path parameter `agentId`. */
export const AgentId = (): ParameterDecorator => Param('agentId', AgentIdPipe);
