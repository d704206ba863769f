"""The threads and runs, in SQLite. A method returns when what it wrote is on the disk."""

import asyncio
import json

import aiosqlite

from .errors import Refused
from .json_form import encoded, now

# A run that is over stays listed, without its input, until so many later ones of its thread are over as well.
RUNS_KEPT_PER_THREAD = 100

TABLES = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS threads (
    thread_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, metadata TEXT NOT NULL, config TEXT NOT NULL,
    status TEXT NOT NULL, "values" TEXT, interrupts TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, thread_id TEXT NOT NULL, assistant_id TEXT NOT NULL, graph_id TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, status TEXT NOT NULL, metadata TEXT NOT NULL, kwargs TEXT NOT NULL,
    multitask_strategy TEXT NOT NULL, attempts INTEGER NOT NULL, due_at REAL NOT NULL, error TEXT
);
CREATE INDEX IF NOT EXISTS runs_by_thread ON runs (thread_id, number);
CREATE INDEX IF NOT EXISTS runs_to_do ON runs (status) WHERE status IN ('pending', 'running');
"""
INSERT_OLDER_THREADS = """
INSERT OR IGNORE INTO threads SELECT DISTINCT thread_id, ?, ?, '{"graph_id":"agent"}', '{}', 'idle', NULL, '{}' FROM checkpoints
"""
THREAD_COLUMNS = ("thread_id", "created_at", "updated_at", "metadata", "config", "status", "values", "interrupts")
SORTED_BY = ("thread_id", "status", "created_at", "updated_at")
IS_TO_DO = "status IN ('pending', 'running')"
JSON_COLUMNS = ("metadata", "config", "values", "interrupts", "kwargs", "error")


class Records:
    def __init__(self, database):
        self.database = database
        self.lock = asyncio.Lock()

    @classmethod
    async def open(cls, path):
        """Opens the records beside the checkpoints, whose tables exist already. Runs that a kill cut off are to do again."""
        database = await aiosqlite.connect(path, timeout=60)
        database.row_factory = aiosqlite.Row
        await database.executescript(TABLES)
        await database.execute(INSERT_OLDER_THREADS, (now(), now()))
        await database.execute("UPDATE runs SET status = 'pending' WHERE status = 'running'")
        await database.commit()
        return cls(database)

    async def close(self):
        await self.database.close()

    async def rows(self, query, values=()):
        async with self.database.execute(query, values) as cursor:
            return [read(row) for row in await cursor.fetchall()]

    async def row(self, query, values=()):
        return next(iter(await self.rows(query, values)), None)

    async def write(self, *statements):
        """Executes the statements in one transaction."""
        async with self.lock:
            try:
                for query, values in statements:
                    await self.database.execute(query, values)
                await self.database.commit()
            except BaseException:
                await self.database.rollback()
                raise

    async def thread(self, thread_id):
        """Returns the thread. Throws a 404 if there is none."""
        row = await self.row("SELECT * FROM threads WHERE thread_id = ?", (thread_id,))
        if row is None:
            raise Refused(404, f"Thread with ID {thread_id} not found.")
        return row

    async def has_thread(self, thread_id):
        return await self.row("SELECT 1 AS found FROM threads WHERE thread_id = ?", (thread_id,)) is not None

    async def add_thread(self, thread_id, metadata, config=None):
        await self.write(new_thread(thread_id, metadata, config))

    async def update_thread(self, thread_id, **members):
        await self.write(updated_thread(thread_id, **members))

    async def delete_thread(self, thread_id):
        """Deletes the thread with its runs and checkpoints."""
        await self.write(
            ("DELETE FROM runs WHERE thread_id = ?", (thread_id,)),
            ("DELETE FROM writes WHERE thread_id = ?", (thread_id,)),
            ("DELETE FROM checkpoints WHERE thread_id = ?", (thread_id,)),
            ("DELETE FROM threads WHERE thread_id = ?", (thread_id,)),
        )

    async def copy_thread(self, source, thread_id):
        """Copies a thread with its checkpoints."""
        thread = await self.thread(source)
        copies = [await self.copies_of(table, source, thread_id) for table in ("checkpoints", "writes")]
        await self.write(
            new_thread(thread_id, {**thread["metadata"], "thread_id": thread_id}, thread["config"]),
            (
                'UPDATE threads SET "values" = (SELECT "values" FROM threads WHERE thread_id = ?) WHERE thread_id = ?',
                (source, thread_id),
            ),
            *copies,
        )

    async def copies_of(self, table, source, thread_id):
        columns = [row["name"] for row in await self.rows(f"PRAGMA table_info({table})") if row["name"] != "thread_id"]
        names = ", ".join(columns)
        return (
            f"INSERT INTO {table} (thread_id, {names}) SELECT ?, {names} FROM {table} WHERE thread_id = ?",
            (thread_id, source),
        )

    async def search_threads(self, asked):
        """Returns the threads of a search, of which only the columns in `asked["select"]` are read, and the number of all that match."""
        where, values = conditions_of(asked)
        if asked["sort_by"] not in SORTED_BY:
            raise Refused(422, f"sort_by is none of {', '.join(SORTED_BY)}")
        columns = [name for name in THREAD_COLUMNS if asked["select"] is None or name in asked["select"]] or ["thread_id"]
        order = f"{asked['sort_by']} {'ASC' if asked['sort_order'] == 'asc' else 'DESC'}, thread_id"
        listed = ", ".join(f'"{name}"' for name in columns)
        query = f"SELECT {listed} FROM threads WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
        return await self.rows(query, (*values, asked["limit"], asked["offset"])), await self.count_threads(asked)

    async def count_threads(self, asked):
        where, values = conditions_of(asked)
        return (await self.row(f"SELECT count(*) AS number FROM threads WHERE {where}", values))["number"]

    async def run(self, thread_id, run_id):
        """Returns the run; of any thread if the id of its thread is None. Throws a 404 if there is none."""
        row = await self.row("SELECT * FROM runs WHERE run_id = ?", (run_id,))
        if row is None or (thread_id is not None and row["thread_id"] != thread_id):
            raise Refused(404, f"Run with ID {run_id} not found.")
        return row

    async def runs(self, thread_id, limit, offset, status=None):
        where, values = ("", ()) if status is None else ("AND status = ?", (status,))
        query = f"SELECT * FROM runs WHERE thread_id = ? {where} ORDER BY number DESC LIMIT ? OFFSET ?"
        return await self.rows(query, (thread_id, *values, limit, offset))

    async def runs_to_do(self, thread_id):
        return await self.rows(f"SELECT * FROM runs WHERE thread_id = ? AND {IS_TO_DO} ORDER BY number", (thread_id,))

    async def next_run(self, thread_id):
        """Returns the thread's pending run that is due first."""
        query = "SELECT * FROM runs WHERE thread_id = ? AND status = 'pending' ORDER BY due_at, number LIMIT 1"
        return await self.row(query, (thread_id,))

    async def all_to_do(self):
        """Returns the ids of all runs that are to do, without their input."""
        columns = "run_id, thread_id, json_extract(kwargs, '$.stream_resumable') AS is_resumable"
        return await self.rows(f"SELECT {columns} FROM runs WHERE {IS_TO_DO}")

    async def number_to_do(self):
        return (await self.row(f"SELECT count(*) AS number FROM runs WHERE {IS_TO_DO}"))["number"]

    async def add_run(self, run, thread):
        """Stores a run; its thread is busy from then on. `thread` is the statement that makes or changes the thread."""
        columns = ("run_id", "thread_id", "assistant_id", "graph_id", "created_at", "updated_at", "status", "metadata", "kwargs")
        columns = (*columns, "multitask_strategy", "attempts", "due_at")
        values = tuple(encoded(run[name]) if name in JSON_COLUMNS else run[name] for name in columns)
        await self.write(
            thread,
            (f"INSERT INTO runs ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", values),
            ("UPDATE threads SET status = 'busy' WHERE thread_id = ?", (run["thread_id"],)),
        )

    async def begin_run(self, run_id):
        query = "UPDATE runs SET status = 'running', attempts = attempts + 1, updated_at = ? WHERE run_id = ?"
        await self.write((query, (now(), run_id)))

    async def end_run(self, run, status, error, thread):
        """Stores how a run ended, and the members of its thread that follow. A thread with another run to do stays busy."""
        kept = {name: value for name, value in run["kwargs"].items() if name not in ("input", "command")}
        runs = "SELECT 1 FROM runs WHERE thread_id = threads.thread_id"
        await self.write(
            (
                "UPDATE runs SET status = ?, error = ?, kwargs = ?, updated_at = ? WHERE run_id = ?",
                (status, None if error is None else encoded(error), encoded(kept), now(), run["run_id"]),
            ),
            (
                f"DELETE FROM runs WHERE thread_id = ? AND NOT {IS_TO_DO} AND number <= (SELECT number FROM runs "
                f"WHERE thread_id = ? AND NOT {IS_TO_DO} ORDER BY number DESC LIMIT 1 OFFSET {RUNS_KEPT_PER_THREAD})",
                (run["thread_id"], run["thread_id"]),
            ),
            updated_thread(run["thread_id"], **thread),
            (
                f"UPDATE threads SET status = 'busy' WHERE thread_id = ? AND EXISTS ({runs} AND {IS_TO_DO})",
                (run["thread_id"],),
            ),
        )

    async def delete_run(self, run):
        await self.write(("DELETE FROM runs WHERE run_id = ?", (run["run_id"],)))

    async def delete_checkpoints(self, run):
        """Deletes what a run added to its thread."""
        found = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"
        values = (run["thread_id"], run["thread_id"], run["run_id"])
        await self.write(
            (f"DELETE FROM writes WHERE thread_id = ? AND checkpoint_id IN ({found})", values),
            (f"DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_id IN ({found})", values),
        )


def read(row):
    return {
        name: json.loads(row[name]) if name in JSON_COLUMNS and isinstance(row[name], str) else row[name] for name in row.keys()
    }


def new_thread(thread_id, metadata, config=None):
    """Returns the statement that makes a thread, where there is none yet."""
    query = "INSERT OR IGNORE INTO threads VALUES (?, ?, ?, ?, ?, 'idle', NULL, '{}')"
    return query, (thread_id, now(), now(), encoded(metadata), encoded(config or {}))


def updated_thread(thread_id, **members):
    """Returns the statement that changes members of a thread."""
    sets = "".join(f', "{name}" = ?' for name in members)
    values = [encoded(value) if name in JSON_COLUMNS else value for name, value in members.items()]
    return f"UPDATE threads SET updated_at = ?{sets} WHERE thread_id = ?", (now(), *values, thread_id)


def conditions_of(asked):
    """Returns the condition of a search, and its values."""
    conditions, values = ["1"], []
    ids, status = asked.get("ids"), asked.get("status")
    if ids:
        conditions.append("thread_id IN (SELECT value FROM json_each(?))")
        values.append(encoded(ids))
    if status is not None:
        conditions.append("status = ?")
        values.append(status)
    for column in ("metadata", "values"):
        for key, value in (asked.get(column) or {}).items():
            if '"' in key:
                raise Refused(422, f"A key of {column} has a quotation mark.")
            conditions.append(f'json_extract("{column}", ?) IS json_extract(?, \'$[0]\')')
            values += [f'$."{key}"', encoded([value])]
    return " AND ".join(conditions), values
