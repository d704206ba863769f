import { agentTools } from './agent-tools.ts';
import { computerTools } from './computer-tools.ts';
import type { Tool } from './tool.ts';

/** Every tool. What it takes, where it is sent and who may call it is said by its route. */
export const tools: readonly Tool[] = [...agentTools, ...computerTools];
