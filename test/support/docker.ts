import Docker from 'dockerode';

const patienceMs = 5_000;

/** The value is true if a Docker Engine answers, at DOCKER_HOST or at its usual socket. */
export const dockerAvailable: boolean = await new Docker({ timeout: patienceMs }).ping().then(
  () => true,
  () => false,
);

/**
 * Describes tests that need a real engine: they are skipped with a warning on a machine without one, and fail there in continuous
 * integration.
 */
export function describeWithDocker(name: string, fn: () => void): void {
  if (dockerAvailable) describe(name, fn);
  else describe(name, () => it('needs a Docker Engine', () => reportNoEngine(name, process.env.CI)));
}

export function reportNoEngine(name: string, ci: string | undefined): void {
  const message = `no Docker Engine answers: the tests of "${name}" were NOT run`;
  if (ci && ci !== 'false') throw new Error(message);
  console.warn(message);
}
