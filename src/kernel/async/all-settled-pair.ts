/**
 * Awaits both promises. Rejects with the first one's reason, or else with the second one's, but only after both have settled, so that
 * neither continues unobserved.
 */
export async function allSettledPair<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([one, other]);
  return Promise.all([one, other]);
}
