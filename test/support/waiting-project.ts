import { writeFile } from 'node:fs/promises';

import type { GitEntry } from './git-server.ts';

const WORD = '# wait';

/**
 * A Node project without a Dockerfile, whose installation waits for as long as the operator's file with certificates says so. So one installation
 * of a commit can wait for ever and the next one of the same commit not.
 */
export const waitingProject: Record<string, GitEntry> = {
  'package.json': JSON.stringify({ name: 'agent', main: 'agent.js', scripts: { postinstall: 'node wait.js' } }),
  'package-lock.json': JSON.stringify({ name: 'agent', lockfileVersion: 3, requires: true, packages: { '': { name: 'agent' } } }),
  'wait.js': `if (require('node:fs').readFileSync(process.env.SSL_CERT_FILE, 'utf8').includes('${WORD}')) setInterval(() => 0, 1000);`,
  'agent.js': "require('node:http').createServer((request, response) => response.end('well')).listen(process.env.PORT);",
};

/** The command line of an installation that waits. */
export const waitingCommand = 'node wait.js';

/** Says in the file, which `MOORING_BUILD_CA_FILE` names, whether the next installations wait. */
export function tellBuilds(file: string, { toWait }: { toWait: boolean }): Promise<void> {
  return writeFile(file, toWait ? WORD : '');
}
