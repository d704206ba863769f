import { RuntimeRefused } from '../../runtime.errors.ts';

const PORTS_MAX = 256;
const LABELS_BYTES_MAX = 64 * 1024;
const CONFIG_BYTES_MAX = 256 * 1024;

export interface ImageConfig {
  ExposedPorts?: Record<string, unknown> | null;
  Labels?: Record<string, string> | null;
  Env?: string[] | null;
}

/**
 * Throws `RuntimeRefused` for an image with a very large configuration, because the engine’s lists and events repeat it for each container.
 */
export function refuseLargeConfig(config: ImageConfig | null | undefined): void {
  const ports = Object.keys(config?.ExposedPorts ?? {}).length;
  if (ports > PORTS_MAX) throw new RuntimeRefused(`The image exposes ${ports} ports, and ${PORTS_MAX} is the most.`);
  if (bytesOf(config?.Labels ?? {}) > LABELS_BYTES_MAX) throw new RuntimeRefused('The labels of the image have more than 64 KiB.');
  if (bytesOf(config ?? {}) > CONFIG_BYTES_MAX) throw new RuntimeRefused('The configuration of the image has more than 256 KiB.');
}

const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));
