import { tmpdir } from 'node:os';

import { v7 as uuidv7 } from 'uuid';

import { agentEvents, type AgentSettings } from '../../src/features/agents/index.ts';
import type { Database } from '../../src/postgres/database/database.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import type { NewEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { PostgresEventStore } from '../../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { containerKey } from '../../src/crypto/container-key.ts';
import { DatabaseKeyring } from '../../src/crypto/database-keyring.ts';
import { MasterKeys } from '../../src/crypto/master-keys.ts';
import { ShredLedger } from '../../src/crypto/shred-ledger.ts';
import { ContainerIdentities } from '../../src/runtime/docker/engine/container-identities.ts';
import type { ContainerIdentity } from '../../src/runtime/container.ts';
import { networkName, volumeName } from '../../src/runtime/docker/engine/names.ts';
import type { FakeDockerEngine } from '../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { masterKey } from '../../test/support/replicas.ts';
import { together } from './scale-bed.ts';

export type SeededStatus = 'frozen' | 'asleep' | 'stopped' | 'failed' | 'crashed';

/** The number of agents of each kind: `asleep` is the deep sleep; `failed` agents have no container, `crashed` ones an exited one. */
export type Mix = Record<SeededStatus, number>;

export interface Place {
  databaseUrl: string;
  engine: FakeDockerEngine;
  instance: string;
  accountId: string;
  /** The reference of an image that the engine has. */
  image: string;
}

const APPENDS_AT_ONCE = 64;
const CRASHES = 5;
const containerStates = { frozen: 'paused', asleep: 'exited', stopped: 'exited', crashed: 'exited', failed: null } as const;

/** Appends the lives of the agents to the log, and adds their containers and volumes to the engine. The service must be down. */
export async function seedAgents(place: Place, mix: Mix): Promise<void> {
  const database = await openDatabase({ url: place.databaseUrl });
  const store = new PostgresEventStore(database, new EventCatalogue(Object.values(agentEvents)));
  // Nothing is shredded here, so the ledger is not used.
  const masterKeys = new MasterKeys(database, Buffer.from(masterKey, 'hex'), null);
  const keyring = new DatabaseKeyring(database, masterKeys, ShredLedger.in(tmpdir()));
  try {
    const identities = new ContainerIdentities(place.instance, await containerKey(keyring));
    const kinds = Object.entries(mix).flatMap(([kind, count]) => Array.from({ length: count }, () => kind as SeededStatus));
    await together(kinds, APPENDS_AT_ONCE, async (kind) => {
      const [agentId, deploymentId] = [uuidv7(), uuidv7()];
      await store.append(`agent-${agentId}`, 'no_stream', life(kind, deploymentId, place));
      await seedContainer(kind, { agentId, generation: 1, deploymentId }, identities, place, database);
    });
  } finally {
    await store.close();
    await database.close();
  }
}

async function seedContainer(
  kind: SeededStatus,
  identity: ContainerIdentity,
  identities: ContainerIdentities,
  { engine, instance, image }: Place,
  database: Database,
): Promise<void> {
  const { agentId } = identity;
  engine.containers.volume(volumeName(agentId), { 'mooring.instance': instance, 'mooring.agent': agentId });
  const status = containerStates[kind];
  if (status === null) return;
  const body = {
    Image: image,
    Env: ['PORT=8080'],
    Labels: identities.labelsOf(identity),
    HostConfig: { NetworkMode: networkName(instance), Mounts: [{ Source: volumeName(agentId), Target: '/data' }] },
  };
  const { id } = await engine.containers.seed({
    name: identities.nameOf(identity),
    body,
    imageId: engine.images.find(image)?.id ?? '',
    status,
  });
  // A service that saw the container end has recorded that its output is in the log.
  if (status === 'exited')
    await database.query('insert into drained_runs (agent_id, handle, started_at) values ($1, $2, $3)', [
      agentId,
      id,
      new Date().toISOString(),
    ]);
}

function life(kind: SeededStatus, deployment_id: string, { accountId, image, engine }: Place): NewEvent[] {
  const now = new Date().toISOString();
  const deadline_at = now;
  const source = { image_name: image, repo_url: null, branch: null, template_id: null };
  const settings: AgentSettings = {
    name: 'seeded',
    description: null,
    image: 'docker',
    ...source,
    branch: 'main',
    serverless: true,
    idle_ttl_seconds: 300,
  };
  const sleeps = (depth: 'frozen' | 'stopped') => [
    event('AgentSleepRequested', { depth, reason: depth === 'frozen' ? 'idle' : 'deep', deadline_at }),
    event('AgentSlept', { depth, slept_at: now }),
  ];
  const resolved = { deployment_id, image: engine.images.find(image)?.id ?? '', image_name: image, command: ['program'], commit_sha: null };
  const begun = [
    event('AgentProvisioned', { ...settings, account_id: accountId, external_id: null }),
    event('DeploymentRequested', { deployment_id, generation: 1, source: 'docker', ...source, deadline_at }),
    event('DeploymentStarted', { deployment_id }),
  ];
  if (kind === 'failed')
    return [...begun, event('DeploymentFailed', { deployment_id, step: 'image', kind: 'deployment', reason: 'There is no such image.' })];
  const active = [
    ...begun,
    event('ImageResolved', resolved),
    event('ContainerCreated', { deployment_id, generation: 1 }),
    event('DeploymentSucceeded', { deployment_id, started_at: now }),
  ];
  switch (kind) {
    case 'frozen':
      return [...active, ...sleeps('frozen')];
    case 'asleep':
      return [...active, ...sleeps('frozen'), ...sleeps('stopped')];
    case 'stopped':
      return [...active, event('AgentStopRequested', { deadline_at }), event('AgentStopped', {})];
    case 'crashed': {
      const end = { generation: 1, exit_code: 1, oom: false, cause: 'exited', crashes: CRASHES, restart: null };
      return [...active, event('ContainerExited', end)];
    }
  }

  function event(type: keyof typeof agentEvents, data: object): NewEvent {
    return {
      id: uuidv7(),
      type,
      schemaVersion: agentEvents[type].version,
      data: data as NewEvent['data'],
      metadata: {
        actor: { kind: 'system', id: 'bench', name: 'bench' },
        account_id: accountId,
        request_id: null,
        causation_id: null,
        ip: null,
      },
    };
  }
}
