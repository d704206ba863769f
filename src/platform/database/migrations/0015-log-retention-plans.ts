import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Functions run with the owner's rights. A bitmap scan never marks index entries of removed rows as dead: each transaction would look again at all
 * that the earlier ones removed since the last vacuum.
 */
const asOwner =
  'language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off';

/** Makes one transaction of a trim cost the same however many came before it, and however many streams share an age. */
export class LogRetentionPlans1700000000015 implements MigrationInterface {
  name = 'LogRetentionPlans1700000000015';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(forgetFunction);
    await runner.query('alter function public.es_log_truncate(text, bigint, int) set enable_bitmapscan = off');
  }

  async down(): Promise<void> {
    throw new Error('events are never dropped');
  }
}

/**
 * Forgets log events that are past their stream's age: judges at most \`p_limit\` events of each age, oldest first, from where it stopped the
 * last time. The last event of a stream stays, and with it the stream's revision and the head of the log; it goes when a later event of
 * its stream does. An event from a clock that was ahead is passed over, and goes likewise. Answers {forgotten, more: whether
 * there is more to judge at once}; null where another process is at it.
 */
const forgetFunction = `
  create or replace function public.es_log_forget(p_limit int) returns json ${asOwner} as $$
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
