import { agentTools } from './agent-tools.ts';
import { computerTools } from './computer-tools.ts';
import type { Tool } from './tool.ts';

/** Every tool. Its arguments, their locations and its access rule come from its route. */
export const tools: readonly Tool[] = [...agentTools, ...computerTools];
