import fc from 'fast-check';

import { deliveryIdOf } from './delivery-ids.ts';

const json = (value: unknown) => Buffer.from(JSON.stringify(value));

describe('the name of a delivery', () => {
  it.each([
    ['GitHub', { 'x-github-delivery': 'a1' }, json({}), 'x-github-delivery a1'],
    ['Standard Webhooks', { 'webhook-id': 'msg_1' }, json({}), 'webhook-id msg_1'],
    ['Stripe', { 'stripe-signature': 't=1,v1=2' }, json({ id: 'evt_1' }), 'stripe evt_1'],
    ['Slack, also when it tries again', { 'x-slack-signature': 'v0=1', 'x-slack-retry-num': '2' }, json({ event_id: 'Ev1' }), 'slack Ev1'],
    ['somebody else', { 'content-type': 'application/json' }, json({ id: 'evt_1' }), null],
    ['somebody with an empty name', { 'x-github-delivery': '' }, json({}), null],
    ['Slack without an event', { 'x-slack-signature': 'v0=1' }, Buffer.from('command=%2Fdeploy'), null],
  ])('is found in what %s sends', (_, headers, body, id) => {
    expect(deliveryIdOf(headers, body)).toBe(id);
  });

  it('is searched for in any body without an error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string()), (text) => {
        const id = deliveryIdOf({ 'stripe-signature': 'x' }, Buffer.from(text));
        expect(id === null || id.length <= 262).toBe(true);
      }),
    );
  });
});
