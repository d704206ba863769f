/** An agent in Python that needs no packages. */
export const pythonProgram = `
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"response": "from Python"}).encode()
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET

ThreadingHTTPServer((os.environ.get("HOST", "0.0.0.0"), int(os.environ["PORT"])), Agent).serve_forever()
`;

/** The package-lock.json of a project without packages. */
export const emptyLock = JSON.stringify({ name: 'agent', lockfileVersion: 3, requires: true, packages: { '': {} } });
