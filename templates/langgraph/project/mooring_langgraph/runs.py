"""The runs of graphs on threads. The runs of one thread follow one another."""

import asyncio
import json
import time
import uuid

from .errors import Refused
from .feeds import Feed, ended_feed
from .json_form import error_form, new_id, now, plain, questions_of
from .records import new_thread, updated_thread
from .streams import events_of, input_of, modes_of

PARALLEL_RUNS_MAX = 20
RUNS_TO_DO_MAX = 1_000
# A run that was cut off so many times by the end of the program may be what ends it.
ATTEMPTS_MAX = 3
STRATEGIES = ("reject", "enqueue", "interrupt", "rollback")
# The members of a request that a run keeps until it is over.
KEPT = ("input", "command", "context", "config", "stream_subgraphs", "stream_resumable", "interrupt_before", "interrupt_after")
KEPT = (*KEPT, "checkpoint", "checkpoint_id", "durability")


class Runs:
    def __init__(self, graphs, records):
        self.graphs = graphs
        self.records = records
        self.places = asyncio.Semaphore(PARALLEL_RUNS_MAX)
        # Two requests for one thread are decided upon one after the other.
        self.creating = asyncio.Lock()
        self.workers = {}
        self.wakes = {}
        # Each run has one from before it is stored until it is over.
        self.feeds = {}
        self.tasks = {}
        self.cancelled = {}
        self.is_closing = False

    async def begin(self):
        """Goes on with the runs that the end of the program cut off."""
        to_do = await self.records.all_to_do()
        for run in to_do:
            self.feeds[run["run_id"]] = Feed(bool(run["is_resumable"]))
        for run in to_do:
            self.wake(run["thread_id"])

    async def close(self):
        """Waits until the runs in progress are over. The others are done at the next start."""
        self.is_closing = True
        for wake in self.wakes.values():
            wake.set()
        while self.workers:
            await asyncio.wait(list(self.workers.values()))

    async def create(self, thread_id, wish, follows=False):
        """Stores a run of the request, and returns it with its feed, and with a follower of all its events if one is asked for."""
        graph_id = self.graphs.name_of(wish.get("assistant_id"))
        strategy = wish.get("multitask_strategy") or "reject"
        if strategy not in STRATEGIES:
            raise Refused(422, f"multitask_strategy is none of {', '.join(STRATEGIES)}.")
        if wish.get("webhook"):
            raise Refused(422, "This server calls no webhook after a run.")
        kwargs = {name: wish[name] for name in KEPT if wish.get(name) is not None}
        kwargs["stream_mode"] = modes_of(wish.get("stream_mode"))
        kwargs["temporary"] = thread_id is None and (wish.get("on_completion") or "delete") == "delete"
        async with self.creating:
            if await self.records.number_to_do() >= RUNS_TO_DO_MAX:
                raise Refused(429, f"{RUNS_TO_DO_MAX} runs wait already.")
            to_do = [] if thread_id is None else await self.records.runs_to_do(thread_id)
            if to_do and strategy == "reject":
                raise Refused(422, "Thread is already running a task. Wait for it, or choose another multitask strategy.")
            run = self.new_run(thread_id or new_id(), graph_id, wish, kwargs)
            thread = await self.thread_of(run, thread_id is None or wish.get("if_not_exists") == "create")
            if strategy in ("interrupt", "rollback"):
                for earlier in to_do:
                    await self.cancel(earlier, strategy, waits=False)
            # It may begin before this goes on.
            feed = self.feeds[run["run_id"]] = Feed(bool(wish.get("stream_resumable")))
            follower = feed.follow() if follows else None
            try:
                await self.records.add_run(run, thread)
            except BaseException:
                del self.feeds[run["run_id"]]
                raise
        self.wake(run["thread_id"])
        return run, feed, follower

    def new_run(self, thread_id, graph_id, wish, kwargs):
        return {
            "run_id": new_id(),
            "thread_id": thread_id,
            "assistant_id": self.graphs.assistant(graph_id)["assistant_id"],
            "graph_id": graph_id,
            "created_at": now(),
            "updated_at": now(),
            "status": "pending",
            "metadata": wish.get("metadata") or {},
            "kwargs": kwargs,
            "multitask_strategy": wish.get("multitask_strategy") or "reject",
            "attempts": 0,
            "due_at": time.time() + (wish.get("after_seconds") or 0),
        }

    async def thread_of(self, run, may_make):
        """Returns the statement that makes the run's thread, or that tells which graph it is for."""
        about = {"graph_id": run["graph_id"], "assistant_id": run["assistant_id"]}
        config = run["kwargs"].get("config") or {}
        if await self.records.has_thread(run["thread_id"]):
            thread = await self.records.thread(run["thread_id"])
            return updated_thread(run["thread_id"], metadata={**thread["metadata"], **about}, config={**thread["config"], **config})
        if not may_make:
            raise Refused(404, f"Thread with ID {run['thread_id']} not found.")
        return new_thread(run["thread_id"], {**about, **run["metadata"]}, config)

    def follow(self, run, after=None):
        """Returns a follower of the run's events; of none if the run is over."""
        feed = self.feeds.get(run["run_id"])
        return ended_feed() if feed is None else feed.follow(after)

    async def outcome(self, run):
        """Waits until the run is over, and returns the values of its thread, or its error."""
        feed = self.feeds.get(run["run_id"])
        if feed is not None:
            return await asyncio.shield(feed.outcome)
        over = await self.records.run(run["thread_id"], run["run_id"])
        if over["error"] is not None:
            return {"__error__": over["error"]}
        return (await self.records.thread(run["thread_id"]))["values"]

    async def cancel(self, run, action, waits):
        """Ends a run before its time. With the action "rollback" nothing of it remains. A run that is over stays as it is."""
        run_id = run["run_id"]
        feed, task = self.feeds.get(run_id), self.tasks.get(run_id)
        self.cancelled.setdefault(run_id, action)
        if task is not None:
            task.cancel()
            if waits:
                await asyncio.shield(feed.outcome)
            return
        try:
            latest = await self.records.run(None, run_id)
            if latest["status"] == "pending":
                await self.end(latest, "interrupted", None, None, action)
        finally:
            self.cancelled.pop(run_id, None)

    def wake(self, thread_id):
        """Has the thread's runs done, one after the other."""
        self.wakes.setdefault(thread_id, asyncio.Event()).set()
        if thread_id not in self.workers:
            self.workers[thread_id] = asyncio.create_task(self.work(thread_id))

    async def work(self, thread_id):
        wake = self.wakes[thread_id]
        try:
            while not self.is_closing:
                wake.clear()
                run = await self.records.next_run(thread_id)
                if run is None and not wake.is_set():
                    return
                wait = 0 if run is None else run["due_at"] - time.time()
                if wait > 0:
                    await wait_for(wake, wait)
                elif run is not None and not await self.perform_next(thread_id):
                    return
        finally:
            # Nothing is awaited since the thread was found to have no run to do.
            del self.workers[thread_id], self.wakes[thread_id]

    async def perform_next(self, thread_id):
        """Does the thread's next run once there is a place for it. Returns false if its end could not be recorded."""
        async with self.places:
            # Another one may be the next by now.
            run = await self.records.next_run(thread_id)
            return run is None or self.is_closing or run["due_at"] > time.time() or await self.perform(run)

    async def perform(self, run):
        """Does one run, and records how it ended. Returns false if that could not be recorded."""
        run_id = run["run_id"]
        if run_id in self.cancelled:
            return True
        feed = self.feeds.setdefault(run_id, Feed(bool(run["kwargs"].get("stream_resumable"))))
        states = []
        task = self.tasks[run_id] = asyncio.create_task(self.execute(run, feed, states))
        await asyncio.wait([task])
        del self.tasks[run_id]
        action = self.cancelled.pop(run_id, None)
        if task.cancelled() and action is not None:
            return await self.end(run, "interrupted", None, next(iter(states), None), action)
        error = RuntimeError("the run was cancelled by the graph itself") if task.cancelled() else task.exception()
        if error is None:
            return await self.end(run, "success", None, states[0], None)
        log("error", f"the run failed: {type(error).__name__}")
        feed.publish("error", error_form(error))
        return await self.end(run, "error", error_form(error), next(iter(states), None), None)

    async def execute(self, run, feed, states):
        """Runs the graph to its end, even if nobody follows it. `states` gets the state of the thread, also if the graph fails."""
        await self.records.begin_run(run["run_id"])
        if run["attempts"] >= ATTEMPTS_MAX:
            raise RuntimeError(f"the program ended {ATTEMPTS_MAX} times during the run")
        wish, config = run["kwargs"], config_of(run)
        feed.publish("metadata", {"run_id": run["run_id"], "attempt": run["attempts"] + 1})
        try:
            async with self.graphs.opened(run["graph_id"], config, "threads.create_run", wish.get("context")) as graph:
                given = input_of(wish)
                if run["attempts"] > 0 and await has_begun(graph, run):
                    given = None
                    config["configurable"].pop("checkpoint_id", None)
                try:
                    async for event, data in events_of(graph, given, config, wish):
                        feed.publish(event, data)
                finally:
                    states.append(await graph.aget_state(thread_config(run["thread_id"])))
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            raise RuntimeError(f"the graph asked for the end of the program: {error!r}") from error

    async def end(self, run, status, error, state, action):
        """Records how a run ended, and tells its followers. Returns false if it could not be recorded."""
        outcome, is_recorded = None, False
        try:
            thread = {"status": "error" if error is not None else "idle"}
            if action == "rollback":
                await self.records.delete_checkpoints(run)
                state = await self.state_of(run["thread_id"], run["graph_id"])
            if state is not None:
                outcome = plain(state.values)
                thread |= {"values": outcome, "interrupts": questions_of(state)}
                if thread["status"] == "idle" and action is None and state.next:
                    thread["status"] = "interrupted"
                if thread["interrupts"] and isinstance(outcome, dict):
                    outcome = {**outcome, "__interrupt__": [each for all_of in thread["interrupts"].values() for each in all_of]}
            outcome = outcome if error is None else {"__error__": error}
            await self.records.end_run(run, status, error, thread)
            if run["kwargs"].get("temporary"):
                await self.records.delete_thread(run["thread_id"])
            elif action == "rollback":
                await self.records.delete_run(run)
            is_recorded = True
        except Exception as failure:
            outcome = {"__error__": error_form(failure)}
            log("error", f"the end of a run was not recorded: {type(failure).__name__}: {failure}")
        feed = self.feeds.pop(run["run_id"], None)
        if feed is not None:
            feed.end(outcome)
        return is_recorded

    async def state_of(self, thread_id, graph_id):
        config = thread_config(thread_id)
        async with self.graphs.opened(graph_id, config, "threads.read") as graph:
            return await graph.aget_state(config)


def thread_config(thread_id):
    return {"configurable": {"thread_id": thread_id}}


def config_of(run):
    """Returns the configuration of a run, whose ids its caller can't choose."""
    wish = run["kwargs"]
    given = wish.get("config") or {}
    configurable = {name: value for name, value in (given.get("configurable") or {}).items() if not name.startswith("__")}
    for source in (wish, wish.get("checkpoint") or {}):
        configurable |= {name: source[name] for name in ("checkpoint_id", "checkpoint_ns") if source.get(name)}
    ids = {name: run[name] for name in ("run_id", "thread_id", "graph_id", "assistant_id")}
    config = {name: given[name] for name in ("tags", "recursion_limit", "max_concurrency", "run_name") if given.get(name) is not None}
    config["configurable"] = {**configurable, **ids}
    config["metadata"] = {**(given.get("metadata") or {}), **run["metadata"], **ids}
    config["run_id"] = uuid.UUID(run["run_id"])
    return config


async def has_begun(graph, run):
    """Returns whether an earlier attempt has put the run's input into the thread."""
    config = thread_config(run["thread_id"])
    async for _ in graph.aget_state_history(config, filter={"run_id": run["run_id"]}, limit=1):
        return True
    return False


async def wait_for(event, seconds):
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass


def log(level, message, **members):
    print(json.dumps({"level": level, "message": message, **members}), flush=True)
