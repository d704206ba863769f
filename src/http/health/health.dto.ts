export class HealthDto {
  /** The value is always `ok`, because the service responds. */
  status: string;
  runtime: string;
  /** The version of the service, only for callers on the same machine. */
  version?: string;
}

export class DependencyDto {
  name: string;
  status: 'ok' | 'unavailable';
  /** The value is true if the service refuses writes without it. Agents keep running in any case. */
  required: boolean;
  /** The problem, and the progress of its repair: only for callers on the same machine, and those who send the metrics token. */
  detail?: string;
}

export class ReadinessDto {
  status: 'ready' | 'degraded' | 'unavailable';
  dependencies: DependencyDto[];
}
