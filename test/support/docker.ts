import Docker from 'dockerode';

const patienceMs = 5_000;

/** Whether a Docker Engine answers here, by DOCKER_HOST or at its usual socket. */
export const dockerAvailable: boolean = await new Docker({ timeout: patienceMs }).ping().then(
  () => true,
  () => false,
);

/** Tests that need a real engine: a laptop may be without one, continuous integration may not. */
export function describeWithDocker(name: string, fn: () => void): void {
  if (dockerAvailable) describe(name, fn);
  else describe(name, () => it('needs a Docker Engine', () => reportNoEngine(name, process.env.CI)));
}

export function reportNoEngine(name: string, ci: string | undefined): void {
  const message = `no Docker Engine answers: the tests of "${name}" were NOT run`;
  if (ci && ci !== 'false') throw new Error(message);
  console.warn(message);
}
