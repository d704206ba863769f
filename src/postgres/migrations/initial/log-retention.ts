/** The attributes of functions that run with the owner's rights. No plan may scan the whole table, whatever the statistics say. */
const asOwner = 'language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off';
/** A bitmap scan never marks index entries of removed rows as dead: each transaction would read again all that the earlier ones removed. */
const asOwnerByIndex = `${asOwner} set enable_bitmapscan = off`;

/**
 * Returns the statements that create the removal of old log events. Its cost depends only on what is removed: streams, and events that stay,
 * are not scanned.
 */
export function logRetention(): string[] {
  return [progressTable, setRetentionFunction, trimFunction, forgetFunction, truncateFunction];
}

/**
 * The progress of retention: the position up to which events were examined, one row for each age that some stream has. A missing row means
 * the beginning.
 */
const progressTable = `
  create table public.es_log_retention (
    max_age_seconds bigint primary key,
    -- No event up to here has to be looked at again.
    position bigint not null,
    -- When nothing was left that had to be forgotten.
    caught_up_at timestamptz(3)
  );
  create index es_stream_meta_max_age on public.es_stream_meta (max_age_seconds) where max_age_seconds is not null`;

/** Sets a stream's age. If the stream has events already, they are examined again with the new age. The last parameter has no meaning. */
const setRetentionFunction = `
  create function public.es_set_retention(p_stream text, p_max_age_seconds bigint, p_max_count bigint) returns void ${asOwner} as $$
  declare
    first bigint;
  begin
    if p_stream not like 'log-%' then
      raise exception 'retention is for streams of the class log, not for %', p_stream using errcode = 'invalid_parameter_value';
    end if;
    insert into public.es_stream_meta as m (stream, max_age_seconds) values (p_stream, p_max_age_seconds)
      on conflict (stream) do update set max_age_seconds = excluded.max_age_seconds;
    first := (select e.position from public.es_log_event e where e.stream = p_stream order by e.version limit 1);
    if first is not null then
      update public.es_log_retention r set position = first - 1 where r.max_age_seconds = p_max_age_seconds and r.position >= first;
    end if;
  end $$`;

/** Does nothing, and nothing calls it. */
const trimFunction = `
  create function public.es_log_trim(p_limit int) returns int language sql security definer set search_path = pg_catalog, pg_temp as 'select 0'`;

/**
 * Removes log events that are past their stream's age: examines at most `p_limit` events of each age, oldest first, from where it stopped
 * the last time. The last event of a stream stays, which keeps the stream's revision and the head of the log; it is removed after a later
 * event of its stream expires. An event whose time is in the future, from a clock that was ahead, is skipped and removed in the same way.
 * Returns {forgotten, more: true if more can be examined at once}, or null while another process is trimming.
 */
const forgetFunction = `
  create function public.es_log_forget(p_limit int) returns json ${asOwnerByIndex} as $$
  declare
    stamp timestamptz := clock_timestamp();
    head bigint := (select e.position from public.es_log_event e order by e.position desc limit 1);
    age bigint := (select min(m.max_age_seconds) from public.es_stream_meta m where m.max_age_seconds is not null);
    cutoff timestamptz;
    mark bigint;
    first record;
    last bigint;
    stop bigint;
    forgotten int;
    total int := 0;
    is_full boolean;
    any_full boolean := false;
  begin
    if not pg_try_advisory_xact_lock(5040, 3) then
      return null;
    end if;
    perform set_config('mooring.trimming', 'on', true);
    while age is not null loop
      cutoff := stamp - make_interval(secs => age);
      mark := coalesce((select r.position from public.es_log_retention r where r.max_age_seconds = age), 0);
      is_full := false;
      select e.position, e.at into first from public.es_log_event e where e.position > mark order by e.position limit 1;
      if first.position is not null and (first.at < cutoff or first.at > stamp) then
        last := least(first.position + p_limit - 1, head);
        stop := coalesce((
          select e.position from public.es_log_event e
           where e.position > first.position and e.position <= last and e.at >= cutoff and e.at <= stamp order by e.position limit 1), last + 1);
        -- Look-ups by key for each stream, since a join may be planned as a scan of the events for each of the streams.
        with judged as materialized (
          select e.stream, max(e.version) as version from public.es_log_event e
           where e.position >= first.position and e.position < stop and e.at < cutoff group by e.stream),
        bounded as materialized (
          select j.stream, least(j.version, (
            select c.version - 1 from public.es_log_event c where c.stream = j.stream order by c.version desc limit 1)) as version
            from judged j where (select m.max_age_seconds from public.es_stream_meta m where m.stream = j.stream) = age)
        delete from public.es_log_event e where e.position = any (array(
          select o.position from bounded b cross join lateral (
            select p.position from public.es_log_event p where p.stream = b.stream and p.version <= b.version) o));
        get diagnostics forgotten = row_count;
        total := total + forgotten;
        mark := stop - 1;
        is_full := stop > last and last < head;
      end if;
      insert into public.es_log_retention as r (max_age_seconds, position, caught_up_at)
        values (age, mark, case when not is_full then stamp end)
        on conflict (max_age_seconds) do update set position = excluded.position, caught_up_at = coalesce(excluded.caught_up_at, r.caught_up_at);
      any_full := any_full or is_full;
      age := (select min(m.max_age_seconds) from public.es_stream_meta m where m.max_age_seconds > age);
    end loop;
    perform set_config('mooring.trimming', 'off', true);
    return json_build_object('forgotten', total, 'more', any_full);
  end $$`;

/** Removes at most `p_limit` of the stream's events before the version, oldest first and never its last; returns how many. */
const truncateFunction = `
  create function public.es_log_truncate(p_stream text, p_before bigint, p_limit int) returns int ${asOwnerByIndex} as $$
  declare
    current bigint := (select e.version from public.es_log_event e where e.stream = p_stream order by e.version desc limit 1);
    forgotten int;
  begin
    perform set_config('mooring.trimming', 'on', true);
    delete from public.es_log_event e where e.position = any (array(
      select o.position from public.es_log_event o where o.stream = p_stream and o.version < least(p_before, current) order by o.version limit p_limit));
    get diagnostics forgotten = row_count;
    perform set_config('mooring.trimming', 'off', true);
    return forgotten;
  end $$`;
