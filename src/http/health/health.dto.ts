export class HealthDto {
  /** Always `ok`: the service answers. */
  status: string;
  runtime: string;
  /** The version of the service, only for callers on the same machine. */
  version?: string;
}

export class DependencyDto {
  name: string;
  status: 'ok' | 'unavailable';
  /** The value is true if the service refuses writes without it. Agents go on running in any case. */
  required: boolean;
  /** The problem, and how far its repair has come: only for callers on the same machine, and for those who send the token of the metrics. */
  detail?: string;
}

export class ReadinessDto {
  status: 'ready' | 'degraded' | 'unavailable';
  dependencies: DependencyDto[];
}
