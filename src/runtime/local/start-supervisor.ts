import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';

const RESPONSE_TIMEOUT_MS = 15_000;
const supervisor = fileURLToPath(new URL('./supervisor.mjs', import.meta.url));

export interface Launch {
  command: string[];
  environment: Record<string, string>;
  cwd: string;
  port: number;
}

/**
 * Starts the supervisor of a run in its own session, which neither Ctrl-C nor the end of the service reaches. Resolves once the agent was
 * spawned.
 */
export async function startSupervisor(folder: string, run: number, changes: string, launch: Launch): Promise<void> {
  const child = spawn(process.execPath, ['--max-old-space-size=64', supervisor, folder, String(run), changes], {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  try {
    const answer = await new Promise<string>((resolve, reject) => {
      let text = '';
      const timer = setTimeout(() => reject(new Error('the supervisor does not answer')), RESPONSE_TIMEOUT_MS);
      child.stdout.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8');
      });
      child.stdout.on('close', () => {
        clearTimeout(timer);
        resolve(text);
      });
      child.on('error', reject);
      child.stdin.on('error', reject);
      child.stdin.end(JSON.stringify(launch));
    });
    if (answer === '') throw new Error('the supervisor ended before the agent was started');
    const { refused } = JSON.parse(answer) as { refused?: string };
    if (refused !== undefined) throw new RuntimeRefused(refused);
  } catch (error) {
    throw error instanceof RuntimeRefused ? error : new RuntimeUnavailable(error);
  } finally {
    child.stdin.on('error', () => undefined);
    child.stdout.destroy();
    child.unref();
  }
}
