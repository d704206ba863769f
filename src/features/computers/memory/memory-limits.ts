/** The limit that is reached: the memory of the machine, or the account's share of it. */
export type MemoryLimit = 'machine' | 'account';

export const limitMessages: Readonly<Record<MemoryLimit, string>> = {
  machine: 'The machine has no memory for one more computer; try again, or put a computer to sleep.',
  account: 'The account’s computers take all the memory that one account may have; put one to sleep.',
};

/** Returns whether the reason of a failure is a memory limit. */
export function isLimitMessage(reason: string): boolean {
  return Object.values(limitMessages).includes(reason);
}
