"""The routes of runs, on a thread or on one of their own."""

from .answers import Answer, Events, Later
from .errors import Refused
from .requests import checked_run, uuid_of

BATCH_MAX = 100


class RunRoutes:
    def __init__(self, runs, records):
        self.runs = runs
        self.records = records

    def table(self):
        on_thread, run = r"/threads/(?P<thread>[^/]+)/runs", r"/(?P<run>[^/]+)"
        return [
            *(route for base in (r"/runs", on_thread) for route in self.made_at(base)),
            ("POST", r"/runs/batch", self.batch),
            ("GET", rf"/runs{run}/stream", self.join_stream),
            ("GET", on_thread, self.list),
            ("GET", rf"{on_thread}{run}", self.get),
            ("DELETE", rf"{on_thread}{run}", self.delete),
            ("GET", rf"{on_thread}{run}/join", self.join),
            ("GET", rf"{on_thread}{run}/stream", self.join_stream),
            ("POST", rf"{on_thread}{run}/cancel", self.cancel),
        ]

    def made_at(self, base):
        return [("POST", base, self.create), ("POST", rf"{base}/stream", self.stream), ("POST", rf"{base}/wait", self.wait)]

    async def create(self, request):
        run, _, _ = await self.runs.create(thread_in(request), checked_run(request.wish))
        return Answer(run_form(run), headers=location_of(request, run))

    async def batch(self, request):
        if not isinstance(request.body, list) or not 1 <= len(request.body) <= BATCH_MAX:
            raise Refused(422, f"The body is no list of 1 to {BATCH_MAX} runs.")
        wishes = [checked_run(wish) for wish in request.body]
        return Answer([run_form((await self.runs.create(None, wish))[0]) for wish in wishes])

    async def stream(self, request):
        wish = checked_run(request.wish)
        run, _, follower = await self.runs.create(thread_in(request), wish, follows=True)
        return Events(follower, location_of(request, run), self.end_of(run, wish.get("on_disconnect") == "cancel"))

    async def wait(self, request):
        wish = checked_run(request.wish)
        run, feed, _ = await self.runs.create(thread_in(request), wish)
        return Later(outcome_of(feed), location_of(request, run), self.end_of(run, wish.get("on_disconnect") == "cancel"))

    async def list(self, request):
        thread = await self.records.thread(thread_in(request))
        listed = await self.records.runs(thread["thread_id"], request.limit(), request.offset(), request.query.get("status"))
        return Answer([run_form(run) for run in listed])

    async def get(self, request):
        return Answer(run_form(await self.run(request)))

    async def delete(self, request):
        run = await self.run(request)
        if run["status"] in ("pending", "running"):
            raise Refused(409, "The run is not over. Cancel it first.")
        await self.records.delete_run(run)
        return Answer(status=204)

    async def join(self, request):
        run = await self.run(request)
        return Later(self.runs.outcome(run), {}, self.end_of(run, request.is_asked("cancel_on_disconnect")))

    async def join_stream(self, request):
        run = await self.run(request)
        after = request.headers.get("last-event-id")
        follower = self.runs.follow(run, int(after) if after is not None and after.isdecimal() else None if after is None else 0)
        return Events(follower, location_of(request, run), self.end_of(run, request.is_asked("cancel_on_disconnect")))

    async def cancel(self, request):
        action, waits = request.query.get("action", "interrupt"), request.is_asked("wait")
        if action not in ("interrupt", "rollback"):
            raise Refused(422, "action is none of interrupt, rollback.")
        run = await self.run(request)
        await self.runs.cancel(run, action, waits)
        return Answer(status=204 if waits else 202)

    async def run(self, request):
        return await self.records.run(thread_in(request), uuid_of(request.groups["run"]))

    def end_of(self, run, is_asked):
        """Returns a function that ends the run when its reader goes away, if that is asked for."""
        return (lambda: self.runs.cancel(run, "interrupt", waits=False)) if is_asked else None


async def outcome_of(feed):
    return await feed.outcome


def thread_in(request):
    return uuid_of(request.groups["thread"]) if "thread" in request.groups else None


def location_of(request, run):
    base = f"/threads/{run['thread_id']}" if "thread" in request.groups else ""
    return {"content-location": f"{base}/runs/{run['run_id']}"}


def run_form(run):
    """Returns a run as LangGraph's API shows it."""
    return {name: value for name, value in run.items() if name not in ("number", "graph_id", "attempts", "due_at", "error")}
