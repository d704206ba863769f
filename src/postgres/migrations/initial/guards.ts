/** Creates the triggers that refuse changes to stored events, and leaves the log to its owner and to functions that run with the owner's rights. */
export const guards = `
  create function public.es_refuse_change() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
  begin
    if tg_table_name = 'es_log_event' and tg_op = 'DELETE' and current_setting('mooring.trimming', true) = 'on' then
      return null;
    end if;
    raise exception 'events are never changed: % on %', tg_op, tg_table_name using errcode = 'restrict_violation';
  end $$;
  create trigger es_event_keeps before update or delete or truncate on public.es_event
    for each statement execute function public.es_refuse_change();
  create trigger es_log_event_keeps before update or delete or truncate on public.es_log_event
    for each statement execute function public.es_refuse_change();
  revoke all on public.es_event, public.es_log_event, public.es_stream_meta, public.es_log_retention from public;
  revoke all on function public.es_append(json), public.es_log_append(json),
    public.es_append_one(text, bigint, uuid, text, smallint, json, json), public.es_log_append_one(text, bigint, uuid, text, smallint, json, json),
    public.es_close_stream(text, bigint),
    public.es_log_close_stream(text, bigint), public.es_set_retention(text, bigint, bigint), public.es_log_trim(int),
    public.es_log_forget(int), public.es_log_truncate(text, bigint, int) from public`;
