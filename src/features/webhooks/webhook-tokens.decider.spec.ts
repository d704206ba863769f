import type { Sealed } from '../../crypto/keyring.ts';
import { given } from '../../../test/support/decider-spec.ts';
import { webhookTokenDecider, type IssueToken } from './webhook-tokens.decider.ts';
import type { WebhookEvent } from './webhook-tokens.events.ts';

const sealed: Sealed = { v: 1, key: 1, iv: 'iv', ct: 'ct' };
const issue = (tokenId: string, replaces = false): IssueToken => ({
  type: 'IssueToken',
  agentId: 'agent',
  tokenId,
  sealed,
  sha256: `hash of ${tokenId}`,
  replaces,
});
const issued = (token_id: string, replaces: string | null = null): WebhookEvent => ({
  type: 'WebhookTokenIssued',
  data: { agent_id: 'agent', token_id, token: sealed, sha256: `hash of ${token_id}`, replaces },
});

describe('the token of an agent’s webhooks', () => {
  it('is issued once, however often it is requested', () => {
    given(webhookTokenDecider).when(issue('one')).then(issued('one'));
    given(webhookTokenDecider, issued('one')).when(issue('two')).then();
  });

  it('is replaced on request, once for each request', () => {
    given(webhookTokenDecider, issued('one')).when(issue('two', true)).then(issued('two', 'one'));
    given(webhookTokenDecider, issued('one'), issued('two', 'one')).when(issue('two', true)).then();
    given(webhookTokenDecider).when(issue('one', true)).then(issued('one'));
  });
});
