import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { computerIdOf, computerSandbox, type KindRows, type KnownSandbox, type SandboxOfAccount } from '../../../sandboxes/index.ts';
import { abandonedBy, HOLD_COUNTS, IDLE_FROM } from '../../../sandboxes/services.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import { ComputerImages } from './computer-images.service.ts';

const PAGE = `
  select c.computer_id, c.state, ${IDLE_FROM} as last_active_at,
         exists (select from agent_holds h where h.agent_id = 'computer-' || c.computer_id and ${HOLD_COUNTS}) as held,
         ${abandonedBy(`'computer-' || c.computer_id`)} as abandoned_by
    from ${tableOf(computersProjection)} c left join agent_activity v on v.agent_id = 'computer-' || c.computer_id
   where c.computer_id > $1 order by c.computer_id limit $2`;

/** Finds computers that run or have run since that time, and those that may still have to be stopped after they failed to become ready. */
const MAY_WRITE = `
  select computer_id, account_id from ${tableOf(computersProjection)}
   where status in ('creating', 'waking', 'awake') or (status = 'asleep' and updated_at > $1)
      or (status = 'error' and state->>'failure' in ('timeout', 'runtime'))
   limit 20000`;

/** Finds all computers except those that are stopped. */
const LIVE = `
  select computer_id from ${tableOf(computersProjection)}
   where status in ('creating', 'waking', 'awake', 'error', 'deleting') or (status = 'asleep' and sleep_depth = 'frozen')`;

const NEEDED = `select distinct image from ${tableOf(computersProjection)} where image = any($1)`;

interface Row extends Record<string, unknown> {
  computer_id: string;
  state: Computer;
  last_active_at: Date | null;
  held: boolean;
  abandoned_by: string | null;
}

/** Lists the computers of all accounts, for the comparison with the engine. */
@Injectable()
export class AllComputers implements KindRows<Computer> {
  readonly readModels = [computersProjection.name];

  constructor(
    private readonly database: Database,
    private readonly images: ComputerImages,
  ) {}

  /** Returns the computers whose containers may have written to their volumes since that time, at most 20,000. */
  async thatMayWrite(since: Date): Promise<SandboxOfAccount[]> {
    const rows = await this.database.query<{ computer_id: string; account_id: string }>(MAY_WRITE, [since]);
    return rows.map(({ computer_id, account_id: accountId }) => ({ sandboxId: computerSandbox(computer_id), accountId }));
  }

  /** Returns the sandbox ids of the computers that may need work on the engine, or have a container there. */
  async live(): Promise<string[]> {
    const rows = await this.database.query<{ computer_id: string }>(LIVE);
    return rows.map(({ computer_id }) => computerSandbox(computer_id));
  }

  /** The image that this process makes computers of is needed as well: the first of them has it before its row says so. */
  async neededImages(digests: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await this.database.query<{ image: string }>(NEEDED, [[...digests]]);
    const needed = new Set(rows.map(({ image }) => image));
    const { latest: known } = this.images;
    return known !== null && digests.includes(known) ? needed.add(known) : needed;
  }

  /** Returns a page of the computers, ordered by id, that follow the one with the sandbox id. */
  async page(after: string | null, limit: number): Promise<KnownSandbox<Computer>[]> {
    const rows = await this.database.query<Row>(PAGE, [after === null ? '' : computerIdOf(after), limit]);
    return rows.map(({ computer_id, state, last_active_at, held, abandoned_by }) => ({
      sandboxId: computerSandbox(computer_id),
      sandbox: state,
      lastActiveAt: last_active_at,
      held,
      abandonedBy: abandoned_by,
    }));
  }
}
