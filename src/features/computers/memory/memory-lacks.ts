/** The memory that is too small: that of the whole machine, or the account's share of it. */
export type MemoryLack = 'machine' | 'account';

export const lackSentences: Readonly<Record<MemoryLack, string>> = {
  machine: 'The machine has no memory for one more computer; try again, or put a computer to sleep.',
  account: 'The account’s computers take all the memory that one account may have; put one to sleep.',
};

/** Returns true if the reason of a failure is that there is no memory. */
export function isLack(reason: string): boolean {
  return Object.values(lackSentences).includes(reason);
}
