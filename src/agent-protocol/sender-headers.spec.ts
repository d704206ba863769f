import { allowedHeaders } from './allowed-headers.ts';

describe('the headers that an agent may see', () => {
  it('are those of the list, never a credential', () => {
    const given = {
      Authorization: 'Bearer x',
      cookie: 'x',
      'X-API-Key': 'x',
      'x-service-webhook-token': 'x',
      'proxy-authorization': 'x',
      'X-Forwarded-For': '1.2.3.4',
      'Content-Type': 'text/plain',
      'USER-AGENT': 'a',
      'webhook-id': ['1', '2'],
      'x-request-id': undefined,
      traceparent: 'x'.repeat(5_000),
    };
    expect(allowedHeaders(given)).toEqual({ 'content-type': 'text/plain', 'user-agent': 'a', 'webhook-id': '1, 2' });
  });
});
