interface LogNames {
  table: string;
  append: string;
  appendOne: string;
  close: string;
  /** The second part of the advisory lock (5040, n). */
  lock: number;
  /** The first word in the payload of a notification. */
  eventClass: string;
}

const core: LogNames = {
  table: 'es_event',
  append: 'es_append',
  appendOne: 'es_append_one',
  close: 'es_close_stream',
  lock: 1,
  eventClass: 'core',
};
const log: LogNames = {
  table: 'es_log_event',
  append: 'es_log_append',
  appendOne: 'es_log_append_one',
  close: 'es_log_close_stream',
  lock: 2,
  eventClass: 'log',
};

/** The attributes of functions that run with the owner's rights: the search path finds no object that a caller could have created. */
const asOwner = 'language plpgsql security definer set search_path = pg_catalog, pg_temp';

/** Returns the statements that create the event logs, and the functions that append to them. */
export function eventLog(): string[] {
  return [
    ...[core, log].map(eventTable),
    streamMeta,
    ...[core, log].flatMap((names) => [appendFunction(names), appendOneFunction(names), closeFunction(names)]),
  ];
}

function eventTable({ table }: LogNames): string {
  return `
    create table public.${table} (
      position bigint primary key,
      stream text collate "C" not null,
      version bigint not null,
      id uuid not null,
      type text collate "C" not null,
      schema_version smallint not null,
      data json not null,
      metadata json not null,
      -- Of data and metadata, bytes: readers bound their batches by it without opening the values.
      size integer not null,
      at timestamptz(3) not null,
      unique (stream, version)
    )`;
}

const streamMeta = `
  create table public.es_stream_meta (
    stream text collate "C" primary key,
    closed_at timestamptz(3),
    max_age_seconds bigint check (max_age_seconds > 0),
    max_count bigint check (max_count > 0)
  )`;

/**
 * Appends a batch: `p_events` [{o: 1…, i: append, s: stream, e: expected revision, k: 1…n within the append, id, t: type, v, d, m}], at
 * most one append per stream. Positions are gap-free and in commit order because the lock is held until the commit. The lock is taken
 * before the tables are read: every statement of a volatile function takes a new snapshot. Returns {at: milliseconds, before: the log's
 * head} if all were appended, in their order; otherwise also outcomes, by append: [A appended, D the same events are stored already, C
 * closed, W wrong expected revision; revision; position].
 */
function appendFunction({ table, append, lock, eventClass }: LogNames): string {
  const rows = 'json_to_recordset(p_events) x(o int, i int, s text, e bigint, k int, id uuid, t text, v smallint, d json, m json)';
  const current = `coalesce((select c.version from public.${table} c where c.stream = x.s order by c.version desc limit 1), -1)`;
  const closed = 'exists (select from public.es_stream_meta m where m.stream = x.s and m.closed_at is not null)';
  const insert = `insert into public.${table} (position, stream, version, id, type, schema_version, data, metadata, size, at)`;
  const values = 'x.id, x.t, x.v, x.d, x.m, octet_length(x.d::text) + octet_length(x.m::text), stamp';
  return `
    create function public.${append}(p_events json) returns json ${asOwner} as $$
    declare
      head bigint;
      appended bigint;
      stamp timestamptz(3);
      outcomes json;
    begin
      perform pg_advisory_xact_lock(5040, ${lock});
      head := coalesce((select e.position from public.${table} e order by e.position desc limit 1), 0);
      stamp := clock_timestamp();
      -- Nearly every batch meets its streams as expected, and is put in place without judging each append by itself.
      with events as materialized (select x.* from ${rows})
      ${insert}
      select head + x.o, x.s, x.e + x.k, ${values} from events x
       where not exists (select from events x where x.k = 1 and (x.e <> ${current} or ${closed}));
      get diagnostics appended = row_count;
      if appended = 0 then
        with events as materialized (select x.* from ${rows}),
        items as materialized (
          select x.i, x.s, x.e, x.n, ${current} as current, ${closed} as closed
            from (select i, s, e, count(*) as n from events group by i, s, e) x),
        judged as materialized (
          select it.*, case
              when it.current >= it.e + it.n and it.n = (
                select count(*) from events ev join public.${table} st on st.stream = it.s and st.version = it.e + ev.k and st.id = ev.id
                 where ev.i = it.i) then 'D'
              when it.closed then 'C'
              when it.e = it.current then 'A'
              else 'W' end as verdict
            from items it),
        placed as materialized (
          select j.*, (head + sum(case when j.verdict = 'A' then j.n else 0 end) over (order by j.i))::bigint - j.n as before from judged j),
        inserted as (
          ${insert}
          select p.before + x.k, p.s, p.current + x.k, ${values} from events x join placed p on p.i = x.i where p.verdict = 'A'
          returning 1)
        select (select count(*) from inserted), json_agg(json_build_array(p.verdict,
               case p.verdict when 'A' then p.current + p.n when 'D' then p.e + p.n else p.current end,
               case p.verdict
                 when 'A' then p.before + p.n
                 when 'D' then (select d.position from public.${table} d where d.stream = p.s and d.version = p.e + p.n) end) order by p.i)
          from placed p into appended, outcomes;
      end if;
      if appended > 0 then
        perform pg_notify('mooring_events', '${eventClass} ' || head + appended);
      end if;
      return json_build_object('at', floor(extract(epoch from stamp) * 1000)::bigint, 'before', head, 'outcomes', outcomes);
    end $$`;
}

/**
 * Appends one event to a stream that is at the expected revision, at half the cost: the usual append of a quiet service. Returns {position,
 * time in ms}, or null if it was not appended; the other function then returns the reason.
 */
function appendOneFunction({ table, appendOne, lock, eventClass }: LogNames): string {
  return `
    create function public.${appendOne}(p_stream text, p_expected bigint, p_id uuid, p_type text, p_schema_version smallint, p_data json, p_metadata json)
    returns bigint[] ${asOwner} as $$
    declare
      appended bigint;
      stamp timestamptz(3);
    begin
      perform pg_advisory_xact_lock(5040, ${lock});
      stamp := clock_timestamp();
      insert into public.${table} as e (position, stream, version, id, type, schema_version, data, metadata, size, at)
      select coalesce((select l.position from public.${table} l order by l.position desc limit 1), 0) + 1,
             p_stream, p_expected + 1, p_id, p_type, p_schema_version, p_data, p_metadata,
             octet_length(p_data::text) + octet_length(p_metadata::text), stamp
       where coalesce((select c.version from public.${table} c where c.stream = p_stream order by c.version desc limit 1), -1) = p_expected
         and (select m.closed_at from public.es_stream_meta m where m.stream = p_stream) is null
      returning e.position into appended;
      if appended is not null then
        perform pg_notify('mooring_events', '${eventClass} ' || appended);
      end if;
      return case when appended is not null then array[appended, (extract(epoch from stamp) * 1000)::bigint] end;
    end $$`;
}

/** Closes the stream if it is at the expected revision (-1: without events). Returns its current revision. */
function closeFunction({ table, close, lock }: LogNames): string {
  return `
    create function public.${close}(p_stream text, p_expected bigint) returns bigint ${asOwner} as $$
    declare
      current bigint;
    begin
      perform pg_advisory_xact_lock(5040, ${lock});
      current := coalesce((select e.version from public.${table} e where e.stream = p_stream order by e.version desc limit 1), -1);
      if current = p_expected then
        insert into public.es_stream_meta as m (stream, closed_at) values (p_stream, clock_timestamp())
          on conflict (stream) do update set closed_at = excluded.closed_at where m.closed_at is null;
      end if;
      return current;
    end $$`;
}
