import { setPriority } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';

/** Sends webhooks without a token from `count` addresses until it is killed: `strangers.ts <url> <count>`. */
const [url = '', count = '0'] = process.argv.slice(2);
/** The strangers must not take the processor time of those who measure. */
setPriority(19);
for (let n = 1; n <= Number(count); n++) void send(`203.0.113.${n}`);

async function send(address: string): Promise<never> {
  const headers = { 'content-type': 'text/plain', 'x-forwarded-for': address };
  for (;;) {
    const status = await fetch(url, { method: 'POST', headers, body: 'from a stranger' }).then(
      (answer) => answer.status,
      () => 0,
    );
    // A caller that is refused retries after a pause, like any program.
    if (status !== 202) await pause(100);
  }
}
