import { Injectable } from '@nestjs/common';

import type { HealthCheck, ProtocolSpec } from '../../../agent-protocol/protocol.ts';
import { Config } from '../../../kernel/config/config.ts';
import { DEFAULT_PORT, type Template, Templates } from '../../templates/index.ts';
import type { Release } from '../aggregate/agent-state.rules.ts';

const DEFAULT_HEALTH = { path: '/healthz' };
const DEFAULT_STOP_GRACE_SECONDS = 10;

/** The settings by which the containers of a release are run and reached. */
export interface RunningRelease {
  /** Null if the release has none, or its template does not exist any more. */
  template: Template | null;
  port: number;
  health: HealthCheck;
  protocol: ProtocolSpec;
  stopGraceSeconds: number;
  memoryMb: number;
  cpus: number;
  pids: number;
  /** The path on which the agent answers the handshakes of webhooks' senders; null if it answers none. */
  webhookHandshake: string | null;
}

/** Answers for all features how a release is run and reached: as was said for its deployment, else as its template says, else by default. */
@Injectable()
export class ReleaseRuns {
  constructor(
    private readonly templates: Templates,
    private readonly config: Config,
  ) {}

  of(release: Pick<Release, 'templateId' | 'run'> | null): RunningRelease {
    const template = this.templates.get(release?.templateId ?? '') ?? null;
    const said = release?.run ?? {};
    const { agentMemoryMb, agentMemoryMaxMb, agentCpus, agentCpusMax, agentPids } = this.config;
    return {
      template,
      port: said.port ?? template?.port ?? DEFAULT_PORT,
      health: said.health_path === undefined ? (template?.health ?? DEFAULT_HEALTH) : healthOf(said.health_path),
      protocol: protocolOf(said.protocol, template),
      stopGraceSeconds: template?.stopGraceSeconds ?? DEFAULT_STOP_GRACE_SECONDS,
      // An operator who lowers a bound expects that it holds for the next container of every agent.
      memoryMb: said.memory_mb === undefined ? (template?.resources.memoryMb ?? agentMemoryMb) : Math.min(said.memory_mb, agentMemoryMaxMb),
      cpus: said.cpus === undefined ? agentCpus : Math.min(said.cpus, agentCpusMax),
      pids: template?.resources.pids ?? agentPids,
      webhookHandshake: said.webhook_handshake ?? null,
    };
  }
}

function healthOf(said: string): HealthCheck {
  return said === 'tcp' ? { tcp: true } : { path: said };
}

/** The further members of a protocol are those of the template, if that has the same one. */
function protocolOf(said: ProtocolSpec['name'] | undefined, template: Template | null): ProtocolSpec {
  const own = template?.protocol ?? { name: 'mooring' };
  return said === undefined || said === own.name ? own : { name: said };
}
