/** The limit that is reached: the memory of the machine, or the account's share of it. */
export type MemoryLack = 'machine' | 'account';

export const lackSentences: Readonly<Record<MemoryLack, string>> = {
  machine: 'The machine has no memory for one more computer; try again, or put a computer to sleep.',
  account: 'The account’s computers take all the memory that one account may have; put one to sleep.',
};

/** Returns whether the reason of a failure is a memory limit. */
export function isLack(reason: string): boolean {
  return Object.values(lackSentences).includes(reason);
}
