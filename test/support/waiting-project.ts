import { writeFile } from 'node:fs/promises';

import type { GitEntry } from './git-server.ts';

const WORD = '# wait';

/**
 * A Node project without a Dockerfile, whose installation waits for as long as the operator's certificate file says so. One installation of
 * a commit can wait for ever while the next one of the same commit does not.
 */
export const waitingProject: Record<string, GitEntry> = {
  'package.json': JSON.stringify({ name: 'agent', main: 'agent.js', scripts: { postinstall: 'node wait.js' } }),
  'package-lock.json': JSON.stringify({ name: 'agent', lockfileVersion: 3, requires: true, packages: { '': { name: 'agent' } } }),
  'wait.js': `if (require('node:fs').readFileSync(process.env.SSL_CERT_FILE, 'utf8').includes('${WORD}')) setInterval(() => 0, 1000);`,
  'agent.js': "require('node:http').createServer((request, response) => response.end('well')).listen(process.env.PORT);",
};

/** The command line of an installation that waits. */
export const waitingCommand = 'node wait.js';

/** A Python project that waits likewise, while its only package is built, which is in a local folder. */
export const waitingPythonProject: Record<string, GitEntry> = {
  'requirements.txt': '--no-index\n./slow\n',
  'slow/pyproject.toml': '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
  'slow/wait.py': `import os, time
while '${WORD}' in open(os.environ['SSL_CERT_FILE']).read():
    time.sleep(1)
`,
  'slow/backend.py': `import os, subprocess, sys, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    subprocess.run([sys.executable, 'wait.py'], check=True)
    name = 'slow-1.0-py3-none-any.whl'
    with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:
        wheel.writestr('slow.py', 'word = "well"')
        wheel.writestr('slow-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: slow\\nVersion: 1.0\\n')
        wheel.writestr('slow-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: backend\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr('slow-1.0.dist-info/RECORD', '')
    return name
`,
  'main.py': `import os, slow
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(slow.word.encode())
HTTPServer((os.environ.get('HOST', '0.0.0.0'), int(os.environ['PORT'])), Handler).serve_forever()
`,
};

/** Writes into the file, which `MOORING_BUILD_CA_FILE` names, whether the next installations wait. */
export function tellBuilds(file: string, { toWait }: { toWait: boolean }): Promise<void> {
  return writeFile(file, toWait ? WORD : '');
}
