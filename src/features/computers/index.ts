export { computerEvents } from './aggregate/computers.events.ts';
export { viewerEvents } from './viewer/viewers.events.ts';
export { evolve as evolveComputer, type ComputerState } from './aggregate/computer-state.rules.ts';
export { deletionOf as computerDeletionOf } from './aggregate/computers.decider.ts';
export type { ComputerEvent } from './aggregate/computers.events.ts';
