import { IsIn, IsOptional, IsUUID, Matches } from 'class-validator';

import { AgentDto, checked } from '../../agents/index.ts';
import { PageQueryDto } from '../../../http/requests/page.dto.ts';
import { DeploymentRecordDto } from '../../deployments/index.ts';
import { VariableDto } from '../../environment/index.ts';
import { instantOf, IntegerQuery, TimeQuery } from '../../../http/requests/validation.ts';
import { type EventSelection, ActorView } from './history-item.ts';

const REVISION_MAX = 2_147_483_647;

/** The filters that all lists of events accept. */
export class EventsQueryDto extends PageQueryDto {
  /** Selects events of these types, separated by commas. */
  @IsOptional()
  @Matches(/^[A-Z][A-Za-z0-9]{0,99}(,[A-Z][A-Za-z0-9]{0,99}){0,49}$/, {
    message: 'must be the type of an event, or some separated by commas',
  })
  type?: string;

  /** Selects events of this actor: the id of a key, an account, or a part of the service, or a kind of actor such as `system`. */
  @IsOptional()
  @Matches(/^[\x20-\x7e]{1,200}$/, { message: 'must be the id or the kind of an actor' })
  actor?: string;

  /** Selects events at or after this time. */
  @TimeQuery()
  since?: string;

  /** Selects events before this time. */
  @TimeQuery()
  until?: string;
}

export class HistoryQueryDto extends EventsQueryDto {
  /** Selects events after this revision, or after this position in the log (as in `X-Event-Position`). */
  @IsOptional()
  @Matches(/^(-1|\d{1,60})$/, { message: 'must be a revision or a position' })
  after?: string;
}

export class AuditQueryDto extends EventsQueryDto {
  /**
   * The account whose events are listed. Default: the caller's own; for an administrator's session, all accounts. Only such a session may
   * name another account.
   */
  @IsOptional()
  @IsUUID()
  account_id?: string;

  /** Selects events that concern this agent, including its conversations and its seat. */
  @IsOptional()
  @IsUUID()
  agent_id?: string;

  /** Selects events that concern this computer, including its commands, files and viewers. */
  @IsOptional()
  @IsUUID()
  computer_id?: string;

  /** The order of the list; `desc` lists the newest events first. */
  @IsOptional()
  @IsIn(['asc', 'desc'])
  order?: 'asc' | 'desc';
}

export function selectionOf({ type, actor, since, until }: EventsQueryDto): EventSelection {
  return { types: type?.split(',') ?? null, actor: actor ?? null, since: since ?? null, until: until ?? null };
}

export class StateQueryDto {
  /** Selects the state after the last event at or before this time. A time in the future selects the current state. */
  @TimeQuery()
  at?: string;

  /** Selects the state after the event with this revision. */
  @IsOptional()
  @IntegerQuery(0, REVISION_MAX)
  revision?: number;
}

/** A revision of an agent, or a time (ISO 8601 UTC with milliseconds). */
export type Moment = { revision: number } | { time: string };

const momentRule = (value: unknown) => (momentOf(value) === null ? 'must be a revision or a time in ISO 8601' : null);

export class DiffQueryDto {
  /** The first moment: a revision, or a time. */
  @checked('moment', momentRule)
  from: string;

  /** The second moment: a revision, or a time. */
  @checked('moment', momentRule)
  to: string;
}

/** Parses a moment; digits alone are a revision. Returns null if the text is no moment. */
export function momentOf(text: unknown): Moment | null {
  if (typeof text === 'string' && /^\d{1,10}$/.test(text)) return Number(text) <= REVISION_MAX ? { revision: Number(text) } : null;
  const time = instantOf(text);
  return time === null ? null : { time };
}

/** An agent as GET answered at a moment of the past. */
export class PastStateDto {
  /** The revision of the last event that the state includes. */
  revision: number;
  /** The time of that event. */
  at: string;
  /** The agent as GET answered then; null if it was deleted. `last_active_at` is null, because it is not kept in the log. */
  agent: AgentDto | null;
  /** The agent's variables, with secrets masked. */
  env: VariableDto[];
  /** The latest deployment, without its log. */
  deployment: DeploymentRecordDto | null;
}

export class MomentDto {
  revision: number;
  at: string;
}

export class ChangeDto {
  /** The path of the member in the state, such as `/agent/status`. A variable is found by its key: `/env/TOKEN/value`. */
  path: string;
  /** The earlier value; null if the member was absent. */
  before: unknown;
  /** The later value; null if the member is absent. */
  after: unknown;
  /** The id of the last event that made the change. */
  event_id: string;
}

export class DiffDto {
  from: MomentDto;
  to: MomentDto;
  changes: ChangeDto[];
}

export class CauseDto {
  event_id: string;
  type: string;
  at: string;
  actor: ActorView;
  summary: string;
}

export class ExplanationDto {
  /** The agent's current status, which may be `deleted`. */
  status: string;
  /** The time at which the agent reached that status. */
  since: string;
  /** The causes, starting with the first one; the last is the event that set the status. */
  causes: CauseDto[];
}
