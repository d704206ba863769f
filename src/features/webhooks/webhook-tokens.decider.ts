import type { Sealed } from '../../crypto/keyring.ts';
import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';
import type { WebhookEvent } from './webhook-tokens.events.ts';

/** The token with which senders authenticate at one agent. */
export interface WebhookToken {
  id: string;
  sealed: Sealed;
  /** The SHA-256 of the token in hex. */
  sha256: string;
}

export type WebhookTokenState = WebhookToken | null;

export interface IssueToken {
  type: 'IssueToken';
  agentId: string;
  tokenId: string;
  sealed: Sealed;
  sha256: string;
  /** The value is true if the new token replaces an existing one; otherwise the existing one stays. */
  replaces: boolean;
}

export const webhookTokenDecider: Decider<WebhookTokenState, IssueToken, WebhookEvent> = {
  initialState: () => null,
  decide({ agentId: agent_id, tokenId: token_id, sealed: token, sha256, replaces }, present) {
    // A request that is repeated after a crash has the same id.
    if (present !== null && (!replaces || present.id === token_id)) return [];
    return [{ type: 'WebhookTokenIssued', data: { agent_id, token_id, token, sha256, replaces: present?.id ?? null } }];
  },
  evolve(present, event) {
    if (event.type !== 'WebhookTokenIssued') return present;
    const { token_id: id, token: sealed, sha256 } = event.data;
    return { id, sealed, sha256 };
  },
};
