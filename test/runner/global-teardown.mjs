import { shared } from './shared-servers.mjs';

export default async function globalTeardown() {
  await shared.stop();
}
