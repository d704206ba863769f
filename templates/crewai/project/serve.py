"""Serves a crewAI project: each message is one run of its crew or flow.

Crews remember nothing, so the conversations are in a database on the agent's volume. A message that is delivered again gets the reply that
it got before. The program needs the standard library and the project's own crewAI.
"""

import contextlib
import datetime
import importlib
import inspect
import json
import os
import pathlib
import signal
import sqlite3
import sys
import threading
import tomllib
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VOLUME = pathlib.Path(os.environ.get("MOORING_VOLUME", "."))
PROJECT = pathlib.Path.cwd()
# These are read when crewAI is imported. Nothing is reported to anybody, and what it stores is on the volume.
for name, value in {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_STORAGE_DIR": str(VOLUME / "crewai"),
    "OTEL_SDK_DISABLED": "true",
    "XDG_DATA_HOME": str(VOLUME / ".local"),
}.items():
    os.environ.setdefault(name, value)

BODY_BYTES_MAX = 4 * 1024 * 1024
CONNECTIONS_MAX = 100
# The time in seconds for which a connection may send or receive nothing.
SOCKET_TIMEOUT = 60
BUSY_HEADERS = ("content-type: application/json", "content-length: 32", "retry-after: 1", "connection: close")
BUSY = "\r\n".join(["HTTP/1.1 503 Service Unavailable", *BUSY_HEADERS, "", '{"error":"too many connections"}']).encode()
# Mooring sets this header for each caller of the agent's public address, and passes on none that a caller sent. Its own messages have none.
PUBLIC_HEADER = "forwarded"
FILES_MAX = 2_000
HISTORY_TURNS_MAX = 40
PARALLEL_RUNS_MAX = 4


class Threads:
    """The conversations. Each method may be called by several threads at once."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.database = sqlite3.connect(path, check_same_thread=False)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=FULL")
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS turns (number INTEGER PRIMARY KEY, message TEXT UNIQUE, conversation TEXT, text TEXT, reply TEXT)"
        )
        self.database.execute("CREATE INDEX IF NOT EXISTS by_conversation ON turns (conversation, number)")
        self.database.commit()

    def reply_to(self, message):
        """Returns the reply that the message got before, or None."""
        with self.lock:
            row = self.database.execute("SELECT reply FROM turns WHERE message = ?", (message,)).fetchone()
        return row[0] if row else None

    def history(self, conversation):
        """Returns the latest turns as text, oldest first."""
        query = "SELECT text, reply FROM turns WHERE conversation = ? ORDER BY number DESC LIMIT ?"
        with self.lock:
            rows = self.database.execute(query, (conversation, HISTORY_TURNS_MAX)).fetchall()
        return "\n".join(f"User: {text}\nAssistant: {reply}" for text, reply in reversed(rows))

    def add(self, message, conversation, text, reply):
        with self.lock, self.database:
            values = (message, conversation, text, reply)
            self.database.execute("INSERT OR IGNORE INTO turns (message, conversation, text, reply) VALUES (?, ?, ?, ?)", values)


class Program:
    """The crew or flow of the project, which is made anew for each message."""

    def __init__(self, is_flow, make):
        self.is_flow = is_flow
        self.make = make
        self.has_warned = False

    def warn_once(self, message):
        if not self.has_warned:
            print(json.dumps({"level": "warning", "message": message}), flush=True)
        self.has_warned = True


def find_program():
    """Returns the project's crew or flow: a class, or what a file such as crew.jsonc declares.

    CREWAI_PROGRAM names a class as "package.module:Class", where a project has several.
    """
    with open(PROJECT / "pyproject.toml", "rb") as file:
        settings = tomllib.load(file).get("tool", {}).get("crewai", {})
    for folder in (PROJECT, PROJECT / "src"):
        sys.path.insert(0, str(folder))
    kind = settings.get("type", "crew")
    named = os.environ.get("CREWAI_PROGRAM")
    if named:
        module, _, name = named.partition(":")
        return program_of(getattr(importlib.import_module(module), name))
    if "definition" in settings:
        return declared_program(kind == "flow", PROJECT / settings["definition"])
    found = [program for module in modules_with(kind) for program in programs_in(importlib.import_module(module), kind)]
    if not found:
        raise SystemExit(f"no {kind} was found in the project: name it in CREWAI_PROGRAM, as package.module:Class")
    return program_of(found[0])


def program_of(found):
    is_flow = inspect.isclass(found) and not hasattr(found, "crew")
    return Program(is_flow, found if is_flow else lambda: (found().crew(), {}))


def declared_program(is_flow, path):
    """Returns the crew or flow that a file declares. A crew comes with the values that its inputs have by default."""
    if is_flow:
        from crewai.flow.flow import Flow

        return Program(True, lambda: Flow.from_declaration(path=path))
    from crewai.project.crew_loader import load_crew

    return Program(False, lambda: load_crew(path))


def modules_with(kind):
    """Returns the names of the modules that may hold the program, those at the top first."""
    mark = "@CrewBase" if kind == "crew" else "Flow"
    root = PROJECT / "src" if (PROJECT / "src").is_dir() else PROJECT
    files = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "venv", "tests")]
        files += [pathlib.Path(folder, name) for name in names if name.endswith(".py")]
        if len(files) > FILES_MAX:
            break
    marked = [file for file in files if mark in file.read_text("utf-8", "ignore")]
    marked.sort(key=lambda file: (len(file.parts), file.name not in ("crew.py", "main.py"), str(file)))
    return [".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for file in marked]


def programs_in(module, kind):
    from crewai.flow import Flow

    own = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    if kind == "flow":
        return [value for value in own if issubclass(value, Flow)]
    return [value for value in own if callable(getattr(value, "crew", None))]


def run(program, conversation, message, history):
    """Runs a fresh instance of the program and returns the text of its result."""
    today = datetime.date.today()
    known = {
        "conversation_id": conversation,
        "current_date": today.isoformat(),
        "current_year": str(today.year),
        "history": history,
        "message": message,
    }
    if program.is_flow:
        flow = program.make()
        if not has_place_for_message(flow.state):
            program.warn_once("the state of the flow has no field named message, so no message reaches the flow")
        return text_of(flow.kickoff(inputs={"id": conversation, **known}), flow.state)
    crew, defaults = program.make()
    names = crew.fetch_inputs()
    asked = inputs_for_message(names, known, defaults)
    if not asked and "message" not in names:
        program.warn_once("no task and no agent of the crew has a place such as {message}, so no message reaches the crew")
    return text_of(crew.kickoff(inputs={**defaults, **known, **dict.fromkeys(asked, message)}), None)


def inputs_for_message(names, known, defaults):
    """Returns the inputs that get the message beside "message".

    A crew names its inputs as it likes. Those with other names than the known ones are what the crew is asked; those that have a value by
    default keep it, unless the message would have no place then.
    """
    others = [name for name in names if name not in known]
    asked = [name for name in others if name not in defaults]
    return others if not asked and "message" not in names else asked


def has_place_for_message(state):
    if not hasattr(state, "model_dump"):
        return True
    return "message" in state.model_dump() or state.model_config.get("extra") == "allow"


def text_of(result, state):
    if result is None and state is not None:
        return state.model_dump_json() if hasattr(state, "model_dump_json") else json.dumps(state, default=str)
    raw = getattr(result, "raw", result)
    return raw if isinstance(raw, str) else json.dumps(raw, default=str)


def said_in(message):
    """Returns all of a message as text: its own text, the body of a webhook, and the paths of attached files."""
    parts = [message.get("text") or ""]
    payload = message.get("payload")
    if payload is not None:
        parts.append(payload if isinstance(payload, str) else json.dumps(payload))
    parts += [f"Attached file: {file['path']}" for file in message.get("attachments") or []]
    return "\n\n".join(part for part in parts if part)


def is_derived(text):
    """Returns whether the id is derived from a name, as those of webhooks are, so that others may know it."""
    try:
        return uuid.UUID(text).version == 5
    except ValueError:
        return False


class Refused(Exception):
    """A request that gets this status and sentence as its answer."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SOCKET_TIMEOUT
    program = None
    threads = None
    places = threading.BoundedSemaphore(PARALLEL_RUNS_MAX)

    def do_GET(self):
        self.say(200, {"status": "ok"}) if self.path == "/healthz" else self.say(404, {"error": "not found"})

    def do_POST(self):
        try:
            message = self.message()
        except Refused as refused:
            return self.say(refused.status, {"error": str(refused)})
        try:
            reply = self.reply(message)
        except Exception as error:
            print(json.dumps({"level": "error", "message": f"the run failed: {type(error).__name__}"}), flush=True)
            return self.say(500, {"error": f"{type(error).__name__}: {error}"[:500]})
        self.say(200, {"response": reply})

    def message(self):
        """Returns the message in the body. Throws `Refused`."""
        if self.path != "/messages":
            raise Refused(404, "not found")
        if "transfer-encoding" in self.headers:
            raise Refused(411, "the body has no content-length")
        length = self.headers.get("content-length") or "0"
        if not length.isdecimal():
            raise Refused(400, "the content-length is no number")
        # Python converts no number with thousands of digits.
        if len(length) > 20 or int(length) > BODY_BYTES_MAX:
            raise Refused(413, f"the body has more than {BODY_BYTES_MAX} bytes")
        try:
            message = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refused(422, "the body is no JSON") from None
        if not isinstance(message, dict) or not all(isinstance(message.get(name), str) for name in ("id", "conversation_id")):
            raise Refused(422, "the body is no message with an id and a conversation_id")
        if PUBLIC_HEADER in self.headers and any(is_derived(message[name]) for name in ("id", "conversation_id")):
            raise Refused(403, "the id of a message or a conversation may be no UUID of version 5: such ones are of Mooring's conversations")
        return message

    def reply(self, message):
        known = self.threads.reply_to(message["id"])
        if known is not None:
            return known
        conversation, text = message["conversation_id"], said_in(message)
        with self.places:
            reply = run(self.program, conversation, text, self.threads.history(conversation))
        self.threads.add(message["id"], conversation, text, reply)
        return reply

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
    # Runs that are in progress when the agent is stopped are completed.
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


def main():
    Handler.threads = Threads(VOLUME / "threads.sqlite")
    Handler.program = find_program()
    server = Server((os.environ.get("HOST", "0.0.0.0"), int(os.environ.get("PORT", "8080"))), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(json.dumps({"level": "info", "message": "the crew is ready", "port": server.server_port}), flush=True)
    server.serve_forever()
    server.server_close()


main()
