import type { ReleaseRun } from '../../agents/index.ts';
import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';

/**
 * Returns the run settings that a release keeps of those that were said for its deployment; null if there is none. The one port that its
 * image exposes counts as said if no other is, and the release has no template to say it.
 */
export function releaseRun(said: RunSettings, exposedPort: number | null): ReleaseRun | null {
  const { protocol, health_path, memory_mb, cpus, webhook_handshake } = said;
  const port = said.port ?? exposedPort;
  const members = Object.entries({ protocol, port, health_path, memory_mb, cpus, webhook_handshake }).filter(([, value]) => value != null);
  return members.length === 0 ? null : Object.fromEntries(members);
}
