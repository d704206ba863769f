import { IsIn, IsOptional, IsUUID, Matches } from 'class-validator';

import { AgentView, checked, ListQuery } from '../agents/index.ts';
import { DeploymentRecordView } from '../deployments/index.ts';
import { VariableView } from '../environment/index.ts';
import { instantOf, IntegerQuery, TimeQuery } from '../platform/http/validation.ts';
import type { EventSelection } from './history-item.ts';
import { ActorView } from './history-item.ts';

const REVISION_MAX = 2_147_483_647;

/** The filters of every list of events. */
export class EventsQuery extends ListQuery {
  /** Only events of these types, separated by commas. */
  @IsOptional()
  @Matches(/^[A-Z][A-Za-z0-9]{0,99}(,[A-Z][A-Za-z0-9]{0,99}){0,49}$/, {
    message: 'must be the type of an event, or some separated by commas',
  })
  type?: string;

  /** Only what this actor did: the id of a key, of an account, of a part of the service; or a kind, as `system`. */
  @IsOptional()
  @Matches(/^[\x20-\x7e]{1,200}$/, { message: 'must be the id or the kind of an actor' })
  actor?: string;

  /** Only events from this time on. */
  @TimeQuery()
  since?: string;

  /** Only events before this time. */
  @TimeQuery()
  until?: string;
}

export class HistoryQuery extends EventsQuery {
  /** Only events after this revision, or after this position in the log (as `X-Event-Position` gives it). */
  @IsOptional()
  @Matches(/^(-1|\d{1,60})$/, { message: 'must be a revision or a position' })
  after?: string;
}

export class AuditQuery extends EventsQuery {
  /** Whose events: the caller's own where absent; for an administrator's session any account's, and everybody's where absent. */
  @IsOptional()
  @IsUUID()
  account_id?: string;

  /** Only what is about this agent, its conversations and its seat included. */
  @IsOptional()
  @IsUUID()
  agent_id?: string;

  /** `desc`: the newest first. */
  @IsOptional()
  @IsIn(['asc', 'desc'])
  order?: 'asc' | 'desc';
}

export function selectionOf({ type, actor, since, until }: EventsQuery): EventSelection {
  return { types: type?.split(',') ?? null, actor: actor ?? null, since: since ?? null, until: until ?? null };
}

export class StateQuery {
  /** The state at this time: after the last event that had happened by then. A time to come is answered as now. */
  @TimeQuery()
  at?: string;

  /** The state after this event. */
  @IsOptional()
  @IntegerQuery(0, REVISION_MAX)
  revision?: number;
}

/** A revision of an agent, or a time (ISO 8601 UTC with milliseconds). */
export type Moment = { revision: number } | { time: string };

const momentRule = (value: unknown) => (momentOf(value) === null ? 'must be a revision or a time in ISO 8601' : null);

export class DiffQuery {
  /** A revision, or a time. */
  @checked('moment', momentRule)
  from: string;

  /** A revision, or a time. */
  @checked('moment', momentRule)
  to: string;
}

/** Digits alone are a revision. Null where the text is no moment. */
export function momentOf(text: unknown): Moment | null {
  if (typeof text === 'string' && /^\d{1,10}$/.test(text)) return Number(text) <= REVISION_MAX ? { revision: Number(text) } : null;
  const time = instantOf(text);
  return time === null ? null : { time };
}

/** An agent as callers were told of it then. */
export class PastState {
  /** Of the last event that is in it. */
  revision: number;
  /** When that event happened. */
  at: string;
  /** As GET would have answered; null once it was deleted. `last_active_at` is kept outside the log, and so null here. */
  agent: AgentView | null;
  /** Secrets masked. */
  env: VariableView[];
  /** The latest, without its log. */
  deployment: DeploymentRecordView | null;
}

export class MomentView {
  revision: number;
  at: string;
}

export class ChangeView {
  /** In the state, `/agent/status`; a variable stands under its key, `/env/TOKEN/value`. */
  path: string;
  /** Null: it was not there. */
  before: unknown;
  /** Null: it is not there any more. */
  after: unknown;
  /** The event that made the change last. */
  event_id: string;
}

export class DiffView {
  from: MomentView;
  to: MomentView;
  changes: ChangeView[];
}

export class CauseView {
  event_id: string;
  type: string;
  at: string;
  actor: ActorView;
  summary: string;
}

export class ExplanationView {
  /** `deleted` too. */
  status: string;
  /** When it came to that status. */
  since: string;
  /** The first cause first; the last is what brought the status about. */
  causes: CauseView[];
}
