const byKey = (method: string, path: string, at: string, status: number, leaves: string, json?: object) => ({
  route: `${method} ${path}`,
  leaves: [leaves],
  by: 'key' as const,
  status,
  path: () => at,
  ...(json === undefined ? {} : { json: () => json }),
});

const secret = ['/api/v1/secrets/:name', '/api/v1/secrets/openai'] as const;

const credential = ['/api/v1/source-credentials/:kind/:host', '/api/v1/source-credentials/registry/ghcr.io'] as const;

/** The requests that change the secrets of an account. */
export const secretActs = [
  byKey('PUT', ...secret, 201, 'SecretStored', { value: 'canary-secret-1' }),
  byKey('DELETE', ...secret, 204, 'SecretRemoved'),
  byKey('PUT', ...credential, 201, 'SourceCredentialStored', { username: 'ci', password: 'canary-secret-2' }),
  byKey('DELETE', ...credential, 204, 'SourceCredentialRemoved'),
];
