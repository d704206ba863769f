import { expectHidden } from '../support/secret-leak-probe.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { expectProblem } from '../support/sample-server.ts';

const PASSWORD = 'canary-4711/+very?secret';

let server: TestServer;
const ask = (method: string, path: string, json?: unknown, credential = 'mk_acme') =>
  server.request(method, path, { credential, ...(json === undefined ? {} : { json }) });
const credential = (method: string, place = '', json?: unknown, caller = 'mk_acme') =>
  ask(method, `/api/v1/source-credentials${place === '' ? '' : `/${place}`}`, json, caller);
const given = { username: 'ci', password: PASSWORD };

describe('a source credential', () => {
  beforeAll(async () => void (server = await startFeatureServer(agentFeatures)));
  afterAll(() => server?.close());

  it('is stored, replaced, listed without its password, and removed', async () => {
    const made = await credential('PUT', 'registry/ghcr.io', given);
    const shown = { host: 'ghcr.io', kind: 'registry', username: 'ci', created_at: expect.any(String), last_used_at: null };
    expect([made.status, made.json]).toEqual([201, shown]);
    const replaced = await credential('PUT', 'registry/GHCR.io', { ...given, username: 'other' });
    expect([replaced.status, replaced.json]).toEqual([200, { ...shown, username: 'other', created_at: made.json.created_at }]);
    expect((await credential('PUT', 'git/git.example%3A3000', given)).json.host).toBe('git.example:3000');
    expect((await credential('GET')).json).toMatchObject([{ host: 'git.example:3000', kind: 'git' }, { host: 'ghcr.io' }]);
    expect((await credential('GET', '', undefined, 'mk_other')).json).toEqual([]);
    expectProblem(await credential('DELETE', 'registry/ghcr.io', undefined, 'mk_other'), 404, 'not_found');
    expect((await credential('DELETE', 'registry/ghcr.io')).status).toBe(204);
    for (const place of ['registry/ghcr.io', 'git/ghcr.io', 'ftp/ghcr.io', 'registry/a%20b'])
      expectProblem(await credential('DELETE', place), 404, 'not_found');
  });

  it('is refused with a bad kind, host, user name or password, and the field is named', async () => {
    for (const [place, json, field] of [
      ['ftp/a.example', given, 'kind'],
      ['registry/https%3A%2F%2Fa.example', given, 'host'],
      ['registry/a.example', { ...given, username: 'a:b' }, 'username'],
      ['registry/a.example', { ...given, password: '' }, 'password'],
      ['registry/a.example', { ...given, password: 'x'.repeat(8_193) }, 'password'],
      ['registry/a.example', { username: 'ci' }, 'password'],
      ['registry/a.example', { ...given, host: 'b.example' }, 'host'],
    ] as const) {
      const answer = await credential('PUT', place, json);
      expectProblem(answer, 400, 'invalid_request');
      expect([place, answer.json.errors]).toEqual([place, expect.arrayContaining([expect.objectContaining({ field })])]);
    }
    expectProblem(await credential('PUT', 'registry/a.example', given, 'mk_acme_manage'), 403, 'insufficient_scope');
  });

  it('leaves no password in the database, in events, in responses or in the log', async () => {
    const answers = [await credential('PUT', 'registry/canary.example', given), await credential('GET'), await ask('GET', '/api/v1/audit')];
    await expectHidden(server, PASSWORD, answers);
  });
});
