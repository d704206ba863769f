/** The longest wait of a tool for what it has asked for, in seconds. Many clients give a call up after 60 s. */
export const WAIT_SECONDS = 50;
/** The longest time of a command, in seconds. It leaves some for the wake of a sleeping agent. */
const COMMAND_SECONDS = 45;

/** The largest text of a result in bytes, without the notes that stand below it. */
export const SHOWN_BYTES_MAX = 64_000;

/** A tool: the name of a route's operation, and what a model has to know of it besides what the OpenAPI document says. */
export interface Tool {
  /** The operation; the name of the tool is its spelling in snake_case. */
  operationId: string;
  title: string;
  /** The description for models, in place of that of the OpenAPI document, which speaks of HTTP as well. */
  description?: string;
  /** The effect of a call on the account's data. */
  effect: 'reads' | 'changes' | 'destroys';
  /** True if a repeated call changes nothing more. */
  isIdempotent?: true;
  /** True if the route waits until the agent has settled (`Prefer: wait`). */
  waits?: true;
  /** The form of the result; by default it follows the media type of the response. */
  result?: 'file' | 'log' | 'chat';
  /** The operation to call next if this one was not over in time. */
  next?: string;
  /** The arguments that are smaller here than on the route, with the number that is their default and their maximum. */
  bounds?: Readonly<Record<string, number>>;
  /** The operation whose tool makes this one superfluous: it is listed for callers who may not call that one. */
  insteadOf?: string;
}

const settling = { waits: true, next: 'waitForAgent' } as const;
const OR_EXISTING =
  'or the existing one if an agent has the same external id. Variables with values that must stay secret refer to secrets of the account.';

/** Every tool. What it takes, where it is sent and who may call it is said by its route. */
export const tools: readonly Tool[] = [
  { operationId: 'listTemplates', title: 'List templates', effect: 'reads' },
  { operationId: 'listAgents', title: 'List agents', effect: 'reads' },
  { operationId: 'listAgentsRest', title: 'List agents', effect: 'reads', insteadOf: 'listAgents' },
  { operationId: 'getAgent', title: 'Show an agent', description: 'Returns an agent with its status and its settings.', effect: 'reads' },
  {
    operationId: 'getAgentRest',
    title: 'Show an agent',
    description: 'Returns an agent with its status and its settings.',
    effect: 'reads',
    insteadOf: 'getAgent',
  },
  {
    operationId: 'waitForAgent',
    title: 'Wait for an agent',
    description: 'Returns the agent as soon as it has one of the statuses, by default any in which it has settled.',
    effect: 'reads',
    bounds: { timeout: WAIT_SECONDS },
    next: 'waitForAgent',
  },
  {
    operationId: 'createAgent',
    title: 'Make an agent from a template',
    description: `Makes an agent from a template and deploys it; returns the new agent, ${OR_EXISTING}`,
    effect: 'changes',
    ...settling,
  },
  {
    operationId: 'provisionAgent',
    title: 'Make an agent from an image or a repository',
    description: `Makes an agent from a container image or a Git repository and deploys it; returns the new agent, ${OR_EXISTING}`,
    effect: 'changes',
    ...settling,
  },
  {
    operationId: 'deployAgent',
    title: 'Deploy an agent',
    description: 'Deploys the agent. Arguments that are given override its settings for this deployment.',
    effect: 'changes',
    ...settling,
  },
  { operationId: 'startAgent', title: 'Start or wake an agent', effect: 'changes', isIdempotent: true, ...settling },
  {
    operationId: 'stopAgent',
    title: 'Stop an agent',
    description: 'Stops the agent. Its files stay, and nothing but a start runs it again.',
    effect: 'changes',
    isIdempotent: true,
    ...settling,
  },
  { operationId: 'restartAgent', title: 'Restart an agent', effect: 'changes', ...settling },
  {
    operationId: 'deleteAgent',
    title: 'Delete an agent',
    description: 'Deletes the agent with its container and all of its files. Nothing of it can be brought back.',
    effect: 'destroys',
    isIdempotent: true,
  },
  {
    operationId: 'chatWithAgent',
    title: 'Chat with an agent',
    description: 'Sends the agent a message and waits for its reply. Wakes a sleeping agent. A conversation id continues a conversation.',
    effect: 'changes',
    result: 'chat',
    next: 'listAgentMessages',
  },
  {
    operationId: 'listAgentMessages',
    title: 'List the messages of a conversation',
    description: 'Lists the latest messages of a conversation with the agent and their replies, oldest first.',
    effect: 'reads',
  },
  {
    operationId: 'runAgentCommand',
    title: 'Run a command in an agent',
    description: `Runs a command in the agent's container and returns its output and exit code. Wakes a sleeping agent. A command that needs more than ${COMMAND_SECONDS} s is killed: start one that goes on instead.`,
    effect: 'destroys',
    bounds: { timeout: COMMAND_SECONDS },
    next: 'startAgentCommand',
  },
  {
    operationId: 'startAgentCommand',
    title: 'Start a command that goes on',
    description: "Starts a command in the agent's container that goes on after this call, and returns its id. Wakes a sleeping agent.",
    effect: 'destroys',
  },
  { operationId: 'listAgentCommands', title: 'List commands that go on', effect: 'reads' },
  {
    operationId: 'getAgentCommand',
    title: 'Show a command that goes on',
    description: 'Returns the state of a command that goes on: whether it runs, and its exit code.',
    effect: 'reads',
  },
  {
    operationId: 'readAgentCommandOutput',
    title: 'Read the output of a command',
    description: 'Returns what a command that goes on has printed, from the offset on.',
    effect: 'reads',
    bounds: { limit: SHOWN_BYTES_MAX },
  },
  { operationId: 'deleteAgentCommand', title: 'Kill a command that goes on', effect: 'destroys', isIdempotent: true },
  {
    operationId: 'listAgentLogs',
    title: 'Read the log of an agent',
    description: 'Lists the newest lines that the agent printed and what happened to it, oldest first.',
    effect: 'reads',
    result: 'log',
  },
  { operationId: 'listAgentFiles', title: 'List files of an agent', effect: 'reads' },
  {
    operationId: 'downloadAgentFile',
    title: 'Read a file of an agent',
    description: "Returns a text file of the agent's container, or the part of it that the range names, or a picture.",
    effect: 'reads',
    result: 'file',
  },
  { operationId: 'writeAgentFile', title: 'Write a file of an agent', effect: 'destroys', isIdempotent: true },
  {
    operationId: 'listAgentHistory',
    title: 'Show the history of an agent',
    description: 'Lists the events of the agent, oldest first, even after it is deleted: what happened, when, and who did it.',
    effect: 'reads',
  },
  { operationId: 'explainAgent', title: "Explain an agent's status", effect: 'reads' },
];
