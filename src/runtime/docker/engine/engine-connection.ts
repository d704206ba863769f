import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Dockerode from 'dockerode';
import { enginePlace, type EnginePlace } from './docker-host.ts';
import { SshTunnel } from './ssh-tunnel.ts';

/** The time for which the start waits for an ssh connection, in ms. After that the engine counts as unavailable. */
const SSH_ANSWERS_MS = 15_000;

/** A connection to an engine. */
export interface EngineConnection {
  docker: Dockerode;
  kind: EnginePlace['kind'];
  /** The socket file of the relay through which agents are reached; null if they are reached from this machine. */
  relay: string | null;
  close(): Promise<void>;
}

interface Logger {
  log(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Connects to an engine that is reached by its own socket file or port. */
export const nearEngine = (docker: Dockerode): EngineConnection => ({ docker, kind: 'near', relay: null, close: async () => undefined });

/** Connects to the engine that the environment names. Throws an error for the operator if it can't be reached safely. */
export async function connectToEngine(
  environment: Record<string, string | undefined>,
  sshConfig: string | null,
  logger: Logger,
): Promise<EngineConnection> {
  const place = enginePlace(environment);
  if (place.kind === 'near') return nearEngine(new Dockerode());
  if (place.kind === 'tls') {
    const { host, port } = place;
    const docker = new Dockerode({ protocol: 'https', host, port, ...certificatesIn(place.certificates) });
    return { docker, kind: 'tls', relay: null, close: async () => undefined };
  }
  const tunnel = new SshTunnel(place, sshConfig, (reason) =>
    reason === null
      ? logger.log({ host: place.host }, 'connected to the engine by ssh')
      : logger.warn({ host: place.host, reason }, 'THE ENGINE CAN’T BE REACHED BY SSH'),
  );
  await tunnel.attempted(SSH_ANSWERS_MS);
  // The forwarded socket is the engine's own, so every call is sent to it as to an engine on this machine.
  const docker = new Dockerode({ protocol: 'http', host: undefined, socketPath: tunnel.engine });
  return { docker, kind: 'ssh', relay: tunnel.relay, close: () => tunnel.close() };
}

function certificatesIn(folder: string): { ca: Buffer; cert: Buffer; key: Buffer } {
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name));
    } catch (error) {
      throw new Error(`DOCKER_CERT_PATH must hold ca.pem, cert.pem and key.pem: ${(error as Error).message}.`, { cause: error });
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}
