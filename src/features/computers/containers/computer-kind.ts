import type { ContainerKind } from '../../../sandboxes/index.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import type { ComputerContainers } from './computer-containers.service.ts';
import type { ComputerImages } from './computer-images.service.ts';
import { SAGA, type ComputerRecords } from './computer-records.service.ts';
import { computerRules } from './computer-rules.ts';
import type { ComputerSteps } from './computer-steps.service.ts';
import type { AllComputers } from './all-computers.service.ts';
import type { OwnStep } from './next-step.rules.ts';

export type ComputerKind = ContainerKind<Computer, ComputerRecord, OwnStep>;

/** The token under which the kind is injected. */
export const COMPUTER_KIND = Symbol('the kind of sandboxes that computers are');

/** Returns the kind of sandboxes that computers are. */
export function computerKind(
  records: ComputerRecords,
  containers: ComputerContainers,
  rows: AllComputers,
  steps: ComputerSteps,
  images: ComputerImages,
): ComputerKind {
  return { kind: 'computer', saga: SAGA, rules: computerRules(() => images.latest), records, containers, rows, steps };
}
