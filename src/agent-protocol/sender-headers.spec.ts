import { calledUrl, senderHeaders } from './sender-headers.ts';

const token = `mwh_${'t'.repeat(43)}`;

describe('the headers of a webhook', () => {
  it('reach the agent, whoever the sender is', () => {
    const signed = {
      'linear-signature': 'ab',
      'x-twilio-signature': 'c=',
      'svix-id': 'msg_1',
      'sentry-hook-resource': 'issue',
      'x-signature-ed25519': 'd',
      'x-telegram-bot-api-secret-token': 's',
      'x-gitea-event': 'push',
      'paddle-signature': 'ts=1;h1=2',
      'ce-type': 'com.example',
      'x-slack-retry-num': '1',
      authorization: 'Bearer of-the-sender',
    };
    expect(senderHeaders({ ...signed, 'USER-AGENT': 'a', 'webhook-id': ['1', '2'] })).toEqual({
      ...signed,
      'user-agent': 'a',
      'webhook-id': '1, 2',
    });
  });

  it('never hold a credential of the service, a cookie, a forged address or what is about the connection', () => {
    const given = {
      authorization: `Bearer ${token}`,
      cookie: 'a=b',
      'x-api-key': 'mk_x',
      'x-custom': Buffer.from(token).toString('base64'),
      'x-service-webhook-token': 'x',
      'proxy-authorization': 'x',
      'X-Forwarded-For': '1.2.3.4',
      x_forwarded_for: '1.2.3.4',
      forwarded: 'for=1.2.3.4',
      connection: 'close, X-Hop',
      'x-hop': '1',
      'content-length': '2',
      'x-request-id': undefined,
    };
    expect(senderHeaders(given)).toEqual({});
  });
});

describe('the address that a sender called', () => {
  it.each([
    ['https://m.example/api/webhooks/1', 'https://m.example/api/webhooks/1'],
    [`https://m.example/api/webhooks/1?token=${token}`, 'https://m.example/api/webhooks/1'],
    [`https://m.example/api/webhooks/1?b=%20&token=${token}&a=?x`, 'https://m.example/api/webhooks/1?b=%20&a=?x'],
    [`https://m.example/api/webhooks/1?%74oken=${token}&a=1`, 'https://m.example/api/webhooks/1?a=1'],
    [`https://m.example/api/webhooks/1?other=${token}`, 'https://m.example/api/webhooks/1'],
    ['https://m.example/api/webhooks/1?%zz=1', 'https://m.example/api/webhooks/1?%zz=1'],
  ])('%s reaches the agent without the token', (url, told) => {
    expect(calledUrl(url)).toBe(told);
  });
});
