/**
 * Awaits both outcomes. Rejects with the first one's reason, else with the second one's, but only after both are over: neither goes on
 * unobserved.
 */
export async function bothOf<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([one, other]);
  return Promise.all([one, other]);
}
