"""The HTTP server, and the start and the end of the program."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import queue
import re
import signal
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import InvalidUpdateError
from langgraph.store.sqlite.aio import AsyncSqliteStore

from .answers import Events, Later
from .errors import Refused
from .graphs import Graphs
from .json_form import encoded, error_form, now
from .modules import add_folders, load
from .other_routes import OtherRoutes
from .public_rule import check_public
from .records import Records
from .requests import Request
from .run_routes import RunRoutes
from .runs import Runs, log
from .thread_routes import ThreadRoutes

BODY_BYTES_MAX = 4 * 1024 * 1024
CONNECTIONS_MAX = 100
# The time in seconds for which a connection may send or receive nothing.
SOCKET_TIMEOUT = 60
# Something is sent at least so often, in seconds, so that a reader that went away is noticed.
EVENTS_PAUSE_MAX = 10
WAIT_PAUSE_MAX = 1
BUSY_HEADERS = ("content-type: application/json", "content-length: 33", "retry-after: 1", "connection: close")
BUSY = "\r\n".join(["HTTP/1.1 503 Service Unavailable", *BUSY_HEADERS, "", '{"detail":"too many connections"}']).encode()


class App:
    """Everything that answers requests, on an event loop of its own."""

    def __init__(self, made_by_name, volume):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.run_loop, daemon=True).start()
        self.call(self.open(made_by_name, volume))

    def run_loop(self):
        while True:
            try:
                return self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                # The step of a graph that asks for the end of the program ends its run alone.
                log("error", f"a graph asked for the end of the program: {error!r}")

    def submit(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def call(self, coroutine):
        return self.submit(coroutine).result()

    async def open(self, made_by_name, volume):
        self.opened = contextlib.AsyncExitStack()
        saver = await self.opened.enter_async_context(AsyncSqliteSaver.from_conn_string(str(volume / "threads.sqlite")))
        await saver.setup()
        store = await self.opened.enter_async_context(AsyncSqliteStore.from_conn_string(str(volume / "store.sqlite")))
        await store.setup()
        records = await Records.open(str(volume / "threads.sqlite"))
        self.opened.push_async_callback(records.close)
        graphs = Graphs(made_by_name, saver, store, now())
        self.runs = Runs(graphs, records)
        routes = [ThreadRoutes(graphs, records), RunRoutes(self.runs, records), OtherRoutes(graphs, store)]
        self.routes = [(method, re.compile(path), handler) for each in routes for method, path, handler in each.table()]
        await self.runs.begin()

    async def close(self):
        await self.runs.close()
        await self.opened.aclose()

    async def answer(self, method, path, request):
        """Returns the answer of the route. Throws `Refused`, also for what LangGraph finds wrong with a request."""
        for route, pattern, handler in self.routes:
            match = pattern.fullmatch(path) if route == method else None
            if match is None:
                continue
            request.groups = {name: urllib.parse.unquote(value) for name, value in match.groupdict().items() if value is not None}
            check_public(method, path, request)
            try:
                return await handler(request)
            except (ValueError, InvalidUpdateError) as error:
                raise Refused(422, f"{type(error).__name__}: {error}"[:500]) from error
        raise Refused(404, f"This server has no {method} {path[:200]}.")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SOCKET_TIMEOUT
    app = None
    origins = None

    def handle_any(self):
        try:
            address = urllib.parse.urlsplit(self.path)
            query = {name: values[-1] for name, values in urllib.parse.parse_qs(address.query).items()}
            request = Request({}, query, self.body(), self.headers)
            method = "GET" if self.command == "HEAD" else self.command
            self.send(self.app.call(self.app.answer(method, address.path, request)))
        except Refused as refused:
            self.send_json(refused.status, {"detail": str(refused)})
        except OSError:
            self.close_connection = True
        except Exception as error:
            log("error", f"{self.command} {self.path[:200]} failed: {type(error).__name__}: {error}"[:1_000])
            self.send_json(500, {"detail": f"{type(error).__name__}: {error}"[:500]})

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def do_OPTIONS(self):
        asked = self.headers.get("access-control-request-headers", "*")
        methods = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
        self.begin(204, {"access-control-allow-methods": methods, "access-control-allow-headers": asked, "content-length": "0"})

    def body(self):
        """Returns the JSON in the body; None if there is none."""
        if "transfer-encoding" in self.headers:
            raise Refused(411, "The body has no content-length.")
        length = self.headers.get("content-length") or "0"
        if not length.isdecimal():
            raise Refused(400, "The content-length is no number.")
        # Python converts no number with thousands of digits.
        if len(length) > 20 or int(length) > BODY_BYTES_MAX:
            raise Refused(413, f"The body has more than {BODY_BYTES_MAX} bytes.")
        text = self.rfile.read(int(length))
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            raise Refused(422, "The body is no JSON.") from None

    def send(self, answer):
        if isinstance(answer, Events):
            self.send_events(answer)
        elif isinstance(answer, Later):
            self.send_later(answer)
        elif answer.status in (202, 204):
            self.begin(answer.status, {**answer.headers, "content-length": "0"})
        else:
            self.send_json(answer.status, answer.value, answer.headers)

    def send_events(self, answer):
        self.begin(200, {"content-type": "text/event-stream", "cache-control": "no-store", **answer.headers})
        with self.noticing(answer):
            while (piece := self.next_piece(answer.follower)) is not None:
                number, event, data = piece
                lines = ("" if number is None else f"id: {number}\n") + f"event: {event}\ndata: {data}\n\n"
                self.write((": waiting\n\n" if event == "" else lines).encode())

    def next_piece(self, follower):
        try:
            return follower.pieces.get(timeout=EVENTS_PAUSE_MAX)
        except queue.Empty:
            return (None, "", "")

    def send_later(self, answer):
        future = self.app.submit(answer.coroutine)
        self.begin(200, {"content-type": "application/json", **answer.headers})
        with self.noticing(answer):
            while not concurrent.futures.wait([future], WAIT_PAUSE_MAX).done:
                self.write(b"\n")
            failure = future.exception()
            self.write(encoded(future.result() if failure is None else {"__error__": error_form(failure)}).encode())

    @contextlib.contextmanager
    def noticing(self, answer):
        """Tells the run if its reader goes away."""
        try:
            yield
        except OSError:
            self.close_connection = True
            if answer.on_disconnect is not None:
                self.app.call(answer.on_disconnect())

    def send_json(self, status, value, headers=None):
        body = encoded(value).encode()
        self.begin(status, {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})})
        self.write(body)

    def send_error(self, code, message=None, explain=None):
        # The base class calls this for requests that it can't read, and would answer with a page of HTML.
        self.send_json(code, {"detail": message or "the request could not be read"})

    def begin(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        origin = self.allowed_origin()
        if origin is not None:
            self.send_header("access-control-allow-origin", origin)
            self.send_header("access-control-expose-headers", "content-location, x-pagination-total, x-pagination-next")
        # A connection that waited for another request would delay the end of the server.
        self.send_header("connection", "close")
        self.end_headers()

    def allowed_origin(self):
        origin = self.headers.get("origin") if hasattr(self, "headers") else None
        return "*" if self.origins is None else origin if origin in self.origins else None

    def write(self, data):
        if self.command != "HEAD":
            self.wfile.write(data)
            self.wfile.flush()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    # The server ends when all of its replies have been sent.
    daemon_threads = False
    request_queue_size = 64
    places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request, client_address):
        if not self.places.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(BUSY)
            return self.shutdown_request(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.places.release()
            raise

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request, client_address):
        # A connection that broke concerns nobody but its caller.
        pass


def set_variables(project, env):
    """Sets the variables of the project, of which the agent's own have precedence."""
    if isinstance(env, str) and (project / env).is_file():
        lines = (project / env).read_text("utf-8").splitlines()
        pairs = [line.removeprefix("export ").split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#")]
        env = {name.strip(): value.strip().strip("\"'") for name, value in pairs}
    for name, value in env.items() if isinstance(env, dict) else ():
        os.environ.setdefault(name, str(value))


def graphs_in(project, settings):
    """Returns the graphs that langgraph.json names, and what makes graphs, by their names."""
    specs = {name: spec["path"] if isinstance(spec, dict) else spec for name, spec in (settings.get("graphs") or {}).items()}
    if not specs:
        raise SystemExit("langgraph.json names no graph")
    if settings.get("auth"):
        raise SystemExit("langgraph.json names auth, which this server does not have: remove it, or give the project a Dockerfile")
    if (settings.get("http") or {}).get("app"):
        log("warning", "langgraph.json names http.app, whose routes this server does not have")
    add_folders(project, settings)
    return {name: load(project, spec) for name, spec in specs.items()}


def serve(project, volume):
    settings = json.loads((project / "langgraph.json").read_text("utf-8"))
    set_variables(project, settings.get("env"))
    Handler.app = App(graphs_in(project, settings), volume)
    Handler.origins = ((settings.get("http") or {}).get("cors") or {}).get("allow_origins")
    if Handler.origins is not None and "*" in Handler.origins:
        Handler.origins = None
    server = Server((os.environ.get("HOST", "0.0.0.0"), int(os.environ.get("PORT", "8080"))), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    log("info", "the graphs are ready", port=server.server_port)
    server.serve_forever()
    server.server_close()
    Handler.app.call(Handler.app.close())
