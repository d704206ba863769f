import type { MigrationInterface } from 'typeorm';

import { Events1700000000001 } from './0001-events.ts';
import { Consumers1700000000002 } from './0002-consumers.ts';
import { DataKeys1700000000003 } from './0003-data-keys.ts';
import { Accounts1700000000004 } from './0004-accounts.ts';
import { Http1700000000005 } from './0005-http.ts';
import { AgentActivity1700000000006 } from './0006-agent-activity.ts';
import { Rebuilds1700000000007 } from './0007-rebuilds.ts';
import { Installation1700000000008 } from './0008-installation.ts';
import { AggregateSnapshots1700000000010 } from './0010-aggregate-snapshots.ts';
import { ReadModelVersions1700000000011 } from './0011-read-model-versions.ts';
import { LogRetention1700000000012 } from './0012-log-retention.ts';
import { RebuildReasons1700000000013 } from './0013-rebuild-reasons.ts';
import { DrainedRuns1700000000014 } from './0014-drained-runs.ts';
import { LogRetentionPlans1700000000015 } from './0015-log-retention-plans.ts';
import { Subscriptions1700000000016 } from './0016-subscriptions.ts';
import { AccessTickets1700000000019 } from './0019-access-tickets.ts';
import { SourceCredentialUses1700000000022 } from './0022-source-credential-uses.ts';
import { MasterKeyRotations1700000000023 } from './0023-master-key-rotations.ts';
import { ImageClaims1700000000024 } from './0024-image-claims.ts';
import { CustomFileContents1700000000026 } from './0026-custom-file-contents.ts';
import { ImageAttempts1700000000027 } from './0027-image-attempts.ts';
import { KeptAgents1700000000028 } from './0028-kept-agents.ts';
import { ComputerMemory1700000000029 } from './0029-computer-memory.ts';
import { Viewers1700000000030 } from './0030-viewers.ts';

/**
 * The migrations in the order in which they run. Never edit a released migration: add one. Class names end with 13 digits, in ascending
 * order.
 */
export const migrations: (new () => MigrationInterface)[] = [
  Events1700000000001,
  Consumers1700000000002,
  DataKeys1700000000003,
  Accounts1700000000004,
  Http1700000000005,
  AgentActivity1700000000006,
  Rebuilds1700000000007,
  Installation1700000000008,
  AggregateSnapshots1700000000010,
  ReadModelVersions1700000000011,
  LogRetention1700000000012,
  RebuildReasons1700000000013,
  DrainedRuns1700000000014,
  LogRetentionPlans1700000000015,
  Subscriptions1700000000016,
  AccessTickets1700000000019,
  SourceCredentialUses1700000000022,
  MasterKeyRotations1700000000023,
  ImageClaims1700000000024,
  CustomFileContents1700000000026,
  ImageAttempts1700000000027,
  KeptAgents1700000000028,
  ComputerMemory1700000000029,
  Viewers1700000000030,
];
