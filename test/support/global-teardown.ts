import { shared } from './shared-postgres.ts';

export default async function globalTeardown(): Promise<void> {
  await shared.stop();
}
