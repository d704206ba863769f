/** Returns the TCP port that an image exposes (EXPOSE) if it exposes exactly one, or else null. */
export function exposedPort({ ExposedPorts }: { ExposedPorts?: Record<string, unknown> | null }): number | null {
  const ports = Object.keys(ExposedPorts ?? {}).flatMap((name) => {
    const [, port] = /^(\d{1,5})(?:\/tcp)?$/.exec(name) ?? [];
    return port === undefined ? [] : [Number(port)];
  });
  const [only] = ports;
  return only !== undefined && ports.length === 1 && only >= 1 && only <= 65_535 ? only : null;
}
