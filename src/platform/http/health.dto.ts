export class Health {
  /** Always `ok`: the service answers. */
  status: string;
  runtime: string;
  /** Told to callers on the same machine. */
  version?: string;
}

export class Dependency {
  name: string;
  status: 'ok' | 'unavailable';
  /** Without it the service refuses writes. Agents go on running in any case. */
  required: boolean;
  /** What is the matter, and how far it has come. */
  detail?: string;
}

export class Readiness {
  status: 'ready' | 'degraded' | 'unavailable';
  dependencies: Dependency[];
}
