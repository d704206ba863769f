import type { ComputerSize } from '../aggregate/computers.events.ts';

/** The processors and the memory (MiB) of a computer. */
export interface Resources {
  cpus: number;
  memoryMb: number;
}

const SIZES: Record<ComputerSize, Resources> = {
  small: { cpus: 1, memoryMb: 2_048 },
  medium: { cpus: 2, memoryMb: 4_096 },
  large: { cpus: 4, memoryMb: 8_192 },
};

/**
 * Returns the resources of a computer of this size: never more memory than all computers may take together, so that a small machine can run
 * one, too.
 */
export function resourcesOf(size: ComputerSize, { computersMemoryMaxMb }: { computersMemoryMaxMb: number }): Resources {
  const { cpus, memoryMb } = SIZES[size];
  return { cpus, memoryMb: Math.min(memoryMb, computersMemoryMaxMb) };
}
