"""Serves the graphs that a Python project's langgraph.json names, in the part of LangGraph's API that the agent protocol uses.

LangGraph's own server in Python needs a licence outside of development. This one keeps its threads in SQLite on the agent's volume: each
step of a graph is on the disk before the reply ends.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import pathlib
import queue
import re
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, Interrupt

VOLUME = pathlib.Path(os.environ.get("MOORING_VOLUME", "."))
PROJECT = pathlib.Path.cwd()
BODY_BYTES_MAX = 4 * 1024 * 1024
PIECES_WAITING_MAX = 1_000


def set_variables(env):
    """Sets the variables of the project, of which the agent's own have precedence."""
    if isinstance(env, str) and (PROJECT / env).is_file():
        lines = (PROJECT / env).read_text("utf-8").splitlines()
        pairs = [line.removeprefix("export ").split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#")]
        env = {name.strip(): value.strip().strip("\"'") for name, value in pairs}
    for name, value in env.items() if isinstance(env, dict) else ():
        os.environ.setdefault(name, str(value))


def load(spec):
    """Returns the graph, or the function that makes it, of "./folder/file.py:name" or "package.module:name"."""
    path, _, name = (spec["path"] if isinstance(spec, dict) else spec).partition(":")
    if not path.endswith(".py"):
        return getattr(importlib.import_module(path), name)
    file = (PROJECT / path).resolve()
    sys.path.insert(0, str(file.parent))
    module_spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[file.stem] = module
    module_spec.loader.exec_module(module)
    return getattr(module, name)


def plain(value):
    """Returns the value as JSON can hold it, with messages as LangGraph's API writes them."""
    if isinstance(value, BaseMessage):
        return plain(value.model_dump())
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return {"id": value.id, "value": plain(value.value)} if isinstance(value, Interrupt) else str(value)


class Graphs:
    """The graphs, on an event loop of their own. The runs of a thread follow one another."""

    def __init__(self, settings):
        specs = settings.get("graphs") or {}
        if not specs:
            raise SystemExit("langgraph.json names no graph")
        self.loop = asyncio.new_event_loop()
        # The latest run of each thread that has one.
        self.runs = {}
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        for folder in [PROJECT, *(PROJECT / path for path in settings.get("dependencies", []) if path.startswith("."))]:
            sys.path.insert(0, str(folder))
        self.by_id = {name: load(spec) for name, spec in specs.items()}
        self.by_id.setdefault("agent", next(iter(self.by_id.values())))
        self.call(self.open())

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def open(self):
        self.opened = AsyncSqliteSaver.from_conn_string(str(VOLUME / "threads.sqlite"))
        self.saver = await self.opened.__aenter__()
        await self.saver.setup()

    async def close(self):
        while self.runs:
            await asyncio.wait(list(self.runs.values()))
        await self.opened.__aexit__(None, None, None)

    async def graph(self, name, config):
        made = self.by_id.get(name, self.by_id["agent"])
        if not hasattr(made, "compile") and not hasattr(made, "astream"):
            made = made(config) if inspect.signature(made).parameters else made()
            made = await made if inspect.isawaitable(made) else made
        if not hasattr(made, "astream"):
            return made.compile(checkpointer=self.saver)
        made.checkpointer = self.saver
        return made

    async def thread(self, thread):
        """Returns the thread as LangGraph's API shows it, or None if it has no state."""
        config = {"configurable": {"thread_id": thread}}
        if await self.saver.aget_tuple(config) is None:
            return {"thread_id": thread, "status": "busy", "interrupts": {}} if thread in self.runs else None
        state = await (await self.graph("agent", config)).aget_state(config)
        questions = {task.id: plain(task.interrupts) for task in state.tasks if task.interrupts}
        status = "busy" if thread in self.runs else "interrupted" if questions else "idle"
        return {"thread_id": thread, "status": status, "interrupts": questions}

    async def history(self, thread, metadata):
        config = {"configurable": {"thread_id": thread}}
        graph = await self.graph("agent", config)
        async for state in graph.aget_state_history(config, filter=metadata, limit=1):
            return [{"values": plain(state.values), "next": list(state.next)}]
        return []

    async def run(self, thread, wish, emit):
        """Runs the graph to its end, even if nobody reads what it says."""
        earlier, own = self.runs.get(thread), asyncio.current_task()
        self.runs[thread] = own
        try:
            if earlier is not None:
                await asyncio.wait([earlier])
            config = {"configurable": {"thread_id": thread}, "metadata": wish.get("metadata") or {}}
            graph = await self.graph(wish.get("assistant_id"), config)
            command = wish.get("command")
            given = Command(resume=command["resume"]) if command else wish.get("input")
            modes = ["updates", *(["messages"] if "messages-tuple" in wish.get("stream_mode", []) else [])]
            async for mode, data in graph.astream(given, config, stream_mode=modes):
                emit(mode, plain(data))
        except Exception as error:
            print(json.dumps({"level": "error", "message": f"the run failed: {type(error).__name__}"}), flush=True)
            emit("error", {"error": type(error).__name__, "message": str(error)[:500]})
        finally:
            if self.runs.get(thread) is own:
                del self.runs[thread]
            emit(None, None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    graphs = None

    def do_GET(self):
        self.say(200, {"ok": True}) if self.path == "/ok" else self.say(404, {"detail": "not found"})

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        if length > BODY_BYTES_MAX:
            return self.say(413, {"detail": "the body is too large"})
        wish = json.loads(self.rfile.read(length) or b"{}")
        match = re.fullmatch(r"/threads/([0-9a-f-]{36})/(history|runs/stream)", self.path)
        if self.path == "/threads/search":
            found = [self.graphs.call(self.graphs.thread(thread)) for thread in wish.get("ids", [])[:100]]
            return self.say(200, [thread for thread in found if thread is not None])
        if match is None:
            return self.say(404, {"detail": "not found"})
        if match[2] == "history":
            return self.say(200, self.graphs.call(self.graphs.history(match[1], wish.get("metadata"))))
        return self.stream(match[1], wish)

    def stream(self, thread, wish):
        pieces = queue.SimpleQueue()
        is_read = True

        def emit(event, data):
            # A slow reader loses pieces of the reply's preview, never an update.
            if is_read and not (event == "messages" and pieces.qsize() >= PIECES_WAITING_MAX):
                pieces.put((event, data))

        asyncio.run_coroutine_threadsafe(self.graphs.run(thread, wish, emit), self.graphs.loop)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for event, data in iter(pieces.get, (None, None)):
                self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
        except OSError:
            is_read = False

    def say(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        # A connection that waited for another request would delay the end of the server.
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    # The server ends when all of its replies have been sent.
    daemon_threads = False
    request_queue_size = 64


def main():
    settings = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))
    set_variables(settings.get("env"))
    Handler.graphs = Graphs(settings)
    server = Server((os.environ.get("HOST", "0.0.0.0"), int(os.environ.get("PORT", "8080"))), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(json.dumps({"level": "info", "message": "the graphs are ready"}), flush=True)
    server.serve_forever()
    server.server_close()
    Handler.graphs.call(Handler.graphs.close())


main()
