import type { FirstRun } from './first-run.ts';

/**
 * Returns the text that the operator reads once: the address, the credentials and three commands to copy. A password that the operator has
 * chosen is omitted.
 */
export function welcome({ url, email, password, api_key, agent_id }: FirstRun, givenPassword: string | null): string {
  const shown = password === givenPassword ? 'as MOORING_ADMIN_PASSWORD gives it' : password;
  const lines = ['', `Mooring listens on ${url}`, '', `  sign in   ${email}`, `  password  ${shown}`, `  API key   ${api_key}`, ''];
  if (agent_id !== null) lines.push('Your first agent is being deployed. Try:', '', ...commandsFor(url, api_key, agent_id), '');
  lines.push('first-run.json in the data folder has the same; it is not shown again.', '');
  return `${lines.join('\n')}\n`;
}

function commandsFor(url: string, key: string, agentId: string): string[] {
  const authorization = `-H 'Authorization: Bearer ${key}'`;
  const message = `-H 'Content-Type: application/json' -d '{"message": "hello"}'`;
  return [
    '  # chat with it',
    `  curl -s ${authorization} ${message} ${url}/api/agents/${agentId}/chat`,
    '  # follow its log',
    `  curl -sN ${authorization} -H 'Accept: text/event-stream' ${url}/api/agents/${agentId}/logs`,
    '  # read its history',
    `  curl -s ${authorization} ${url}/api/v1/agents/${agentId}/history`,
  ];
}
