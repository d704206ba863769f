import type pg from 'pg';

/** The role that the service's connections assume: it reads events, appends them through functions, and owns the read models. */
const applicationRole = 'mooring_app';

const ATTEMPTS_MAX = 10;

/**
 * Creates the role if it is missing, and makes sure that the owner may assume it. Roles belong to the whole server, so a service on another
 * database may create the same role concurrently: a lost race is retried. Returns null, and calls `onMissing` with the reason, if the owner
 * lacks the rights.
 */
export async function ensureApplicationRole(owner: pg.Client, onMissing: (reason: string) => void): Promise<string | null> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await owner.query(`do $$ begin
        if not exists (select from pg_roles where rolname = '${applicationRole}') then
          create role ${applicationRole} nologin;
        end if;
        begin
          set local role ${applicationRole};
        exception when insufficient_privilege then
          -- From PostgreSQL 16 on, having made a role does not yet allow to take it.
          grant ${applicationRole} to current_user;
          set local role ${applicationRole};
        end;
      end $$`);
      return applicationRole;
    } catch (error) {
      if (isDenied(error)) {
        onMissing((error as Error).message);
        return null;
      }
      if (attempt >= ATTEMPTS_MAX || !isLostRace(error)) throw error;
    }
  }
}

function isDenied(error: unknown): boolean {
  return (error as { code?: string }).code === '42501';
}

/** Returns whether the error is unique_violation, duplicate_object, or "tuple concurrently updated". */
function isLostRace(error: unknown): boolean {
  return ['23505', '42710', 'XX000'].includes((error as { code?: string }).code ?? '');
}

/**
 * Grants the role its rights. Events and stream facts (`es_…`) are read-only; the functions that write them run with the owner's rights.
 * Every other table of the owner may be written. Changes nothing if no right is missing.
 */
export async function grantToApplication(owner: pg.Client): Promise<void> {
  await owner.query(`do $$
    declare r record;
    begin
      if not has_schema_privilege('${applicationRole}', 'public', 'create') then
        grant usage, create on schema public to ${applicationRole};
      end if;
      for r in
        select c.oid, c.relname, c.relname like 'es\\_%' as is_log
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = 'public' and c.relkind in ('r', 'p')
           and c.relowner = (select oid from pg_roles where rolname = current_user) and c.relname <> 'mooring_migration'
      loop
        if r.is_log and not has_table_privilege('${applicationRole}', r.oid, 'select') then
          execute format('grant select on public.%I to ${applicationRole}', r.relname);
        elsif not r.is_log and not has_table_privilege('${applicationRole}', r.oid, 'insert') then
          execute format('grant select, insert, update, delete on public.%I to ${applicationRole}', r.relname);
        end if;
      end loop;
      for r in
        select p.oid::regprocedure::text as signature
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where n.nspname = 'public' and p.proname like 'es\\_%' and p.prosecdef
           and not has_function_privilege('${applicationRole}', p.oid, 'execute')
      loop
        execute format('grant execute on function %s to ${applicationRole}', r.signature);
      end loop;
    end $$`);
}
