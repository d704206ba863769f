"""The web server of the agent. Begin with `reply` in agent.py; the packages that it imports go into requirements.txt."""

import json
import os
import signal
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agent import reply

BODY_BYTES_MAX = 4 * 1024 * 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A client that sends nothing for so long (seconds) is let go.
    timeout = 120

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, {"status": "ok"})
        else:
            self.answer(404, {"error": "there is only POST /messages and GET /healthz"})

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413, {"error": "the message is too large"})
        body = self.rfile.read(length)
        if self.path != "/messages":
            return self.answer(404, {"error": "there is only POST /messages and GET /healthz"})
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("id"), str):
            return self.answer(400, {"error": "a message is a JSON object with an id"})
        try:
            self.answer(200, {"response": reply(message)})
        except Exception:
            traceback.print_exc()
            self.answer(500, {"error": "the agent failed"})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Says nothing: the health check would fill the log."""


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    address = (os.environ.get("HOST", "0.0.0.0"), int(os.environ.get("PORT", "8080")))
    server = ThreadingHTTPServer(address, Handler)
    server.daemon_threads = True
    print(f"ready on port {address[1]}", flush=True)
    sys.exit(server.serve_forever())
