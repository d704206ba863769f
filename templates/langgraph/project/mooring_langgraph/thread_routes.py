"""The routes of threads and their states."""

from langgraph.types import StateUpdate

from .answers import Answer
from .errors import Refused
from .json_form import EMPTY_STATE, checkpoint_form, new_id, plain, state_form
from .requests import member, texts, uuid_of
from .runs import thread_config
from .streams import input_of


class ThreadRoutes:
    def __init__(self, graphs, records):
        self.graphs = graphs
        self.records = records

    def table(self):
        thread = r"/threads/(?P<thread>[^/]+)"
        return [
            ("POST", r"/threads", self.create),
            ("POST", r"/threads/search", self.search),
            ("POST", r"/threads/count", self.count),
            ("GET", thread, self.get),
            ("PATCH", thread, self.update),
            ("DELETE", thread, self.delete),
            ("POST", rf"{thread}/copy", self.copy),
            ("GET", rf"{thread}/state", self.state),
            ("POST", rf"{thread}/state", self.update_state),
            ("POST", rf"{thread}/state/checkpoint", self.state),
            ("GET", rf"{thread}/state/(?P<checkpoint>[^/]+)", self.state),
            ("GET", rf"{thread}/history", self.history),
            ("POST", rf"{thread}/history", self.history),
        ]

    async def create(self, request):
        thread_id = uuid_of(request.get("thread_id", str, new_id()))
        if request.get("if_exists", str, "raise") == "raise" and await self.records.has_thread(thread_id):
            raise Refused(409, f"Thread with ID {thread_id} exists already.")
        if request.wish.get("ttl") is not None:
            raise Refused(422, "Threads of this server have no ttl.")
        supersteps = request.get("supersteps", list, [])
        await self.records.add_thread(thread_id, request.get("metadata", dict, {}))
        if supersteps:
            await self.replay(await self.records.thread(thread_id), supersteps)
        return Answer(await self.records.thread(thread_id))

    async def replay(self, thread, supersteps):
        """Applies updates to a new thread as if nodes had made them."""
        steps = [[update_in(update) for update in member(step, "updates", list, [])] for step in supersteps]
        config = {"configurable": {"thread_id": thread["thread_id"], "checkpoint_ns": ""}}
        async with self.graph_of(thread, "threads.update") as graph:
            await graph.abulk_update_state(config, steps)
        await self.store_values(thread)

    async def search(self, request):
        if request.is_restricted and not texts(request.wish, "ids"):
            # Clients that list threads when they begin go on with an empty list.
            return Answer([], headers={"x-pagination-total": "0"})
        asked = {**self.conditions(request), "limit": request.limit(), "offset": request.offset()}
        asked |= {"select": texts(request.wish, "select"), "sort_by": request.get("sort_by", str, "created_at")}
        found, total = await self.records.search_threads({**asked, "sort_order": request.get("sort_order", str, "desc")})
        headers = {"x-pagination-total": str(total)}
        if asked["offset"] + len(found) < total:
            headers["x-pagination-next"] = str(asked["offset"] + len(found))
        return Answer(found, headers=headers)

    async def count(self, request):
        return Answer(await self.records.count_threads(self.conditions(request)))

    def conditions(self, request):
        ids = texts(request.wish, "ids")
        return {
            "ids": ids and [uuid_of(each) for each in ids],
            "status": request.get("status", str),
            "metadata": request.get("metadata", dict),
            "values": request.get("values", dict),
        }

    async def get(self, request):
        return Answer(await self.thread(request))

    async def update(self, request):
        thread = await self.thread(request)
        metadata = {**thread["metadata"], **request.get("metadata", dict, {})}
        await self.records.update_thread(thread["thread_id"], metadata=metadata)
        return Answer(await self.thread(request))

    async def delete(self, request):
        thread = await self.thread(request)
        await self.refuse_if_busy(thread)
        await self.records.delete_thread(thread["thread_id"])
        return Answer(status=204)

    async def copy(self, request):
        thread, copied = await self.thread(request), new_id()
        await self.records.copy_thread(thread["thread_id"], copied)
        return Answer(await self.records.thread(copied))

    async def state(self, request):
        thread = await self.thread(request)
        checkpoint = member(request.body, "checkpoint", dict) if isinstance(request.body, dict) else None
        config = state_config(thread, checkpoint or {"checkpoint_id": request.groups.get("checkpoint")})
        if "graph_id" not in thread["metadata"]:
            return Answer(EMPTY_STATE)
        async with self.graph_of(thread, "threads.read") as graph:
            return Answer(state_form(await graph.aget_state(config, subgraphs=request.is_asked("subgraphs"))))

    async def update_state(self, request):
        thread = await self.thread(request)
        await self.refuse_if_busy(thread)
        checkpoint = {"checkpoint_id": request.get("checkpoint_id", str), **request.get("checkpoint", dict, {})}
        config = state_config(thread, checkpoint)
        config["configurable"].setdefault("checkpoint_ns", "")
        async with self.graph_of(thread, "threads.update") as graph:
            written = await graph.aupdate_state(config, request.wish.get("values"), request.get("as_node", str))
        await self.store_values(thread)
        return Answer({"checkpoint": checkpoint_form(written), "configurable": plain(written["configurable"])})

    async def history(self, request):
        thread = await self.thread(request)
        if "graph_id" not in thread["metadata"]:
            return Answer([])
        body = request.body if isinstance(request.body, dict) else request.query
        before = body.get("before")
        if isinstance(before, str):
            before = {"checkpoint_id": before}
        config = state_config(thread, member(body, "checkpoint", dict, {}))
        options = {"limit": request.limit(), "filter": member(body, "metadata", dict), "before": before and {"configurable": before}}
        async with self.graph_of(thread, "threads.read") as graph:
            return Answer([state_form(state) async for state in graph.aget_state_history(config, **options)])

    async def thread(self, request):
        return await self.records.thread(uuid_of(request.groups["thread"]))

    def graph_of(self, thread, access):
        """Opens the graph that the thread is for. Throws a 400 if none is known."""
        name = thread["metadata"].get("graph_id")
        if name is None:
            raise Refused(400, f"Thread with ID {thread['thread_id']} has no graph: no run was made on it yet.")
        configurable = {**(thread["config"].get("configurable") or {}), "thread_id": thread["thread_id"]}
        return self.graphs.opened(self.graphs.name_of(name), {**thread["config"], "configurable": configurable}, access)

    async def store_values(self, thread):
        async with self.graph_of(thread, "threads.read") as graph:
            state = await graph.aget_state(thread_config(thread["thread_id"]))
        await self.records.update_thread(thread["thread_id"], values=plain(state.values))

    async def refuse_if_busy(self, thread):
        if await self.records.runs_to_do(thread["thread_id"]):
            raise Refused(409, f"Thread with ID {thread['thread_id']} is busy.")


def update_in(update):
    """Returns one update of a superstep."""
    given = input_of(update) if member(update, "command", dict) else update.get("values")
    return StateUpdate(given, member(update, "as_node", str))


def state_config(thread, checkpoint):
    """Returns the configuration that names a state of the thread, the latest one if the checkpoint is empty."""
    named = {name: checkpoint[name] for name in ("checkpoint_id", "checkpoint_ns") if isinstance(checkpoint.get(name), str)}
    return {"configurable": {**named, "thread_id": thread["thread_id"]}}
