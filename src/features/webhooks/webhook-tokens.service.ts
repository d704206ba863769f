import { hash, randomBytes } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { agentNotFound } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { base62 } from '../../crypto/base62.ts';
import { Keyring } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { Position } from '../../eventsourcing/event-store/event-store.ts';
import { NETWORK_BITS, networkOf } from '../../kernel/network/network-of.ts';
import { newId } from '../../kernel/ids.ts';
import { webhookTokenDecider, type WebhookTokenState } from './webhook-tokens.decider.ts';

const PREFIX = 'mwh_';
const RANDOM_BYTES = 32;

interface TokenRequest {
  context: CommandContext;
  accountId: string;
  agentId: string;
}

/** Issues the tokens with which senders authenticate at agents, and shows them to their owners. */
@Injectable()
export class WebhookTokens {
  constructor(
    private readonly agents: Agents,
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
  ) {}

  /** Returns the agent's token; the first request issues it. Throws `agent_not_found`. */
  async show(request: TokenRequest): Promise<string> {
    await this.agents.load(request.agentId, request.accountId, request.context.seenUpTo);
    const state = await this.load(request.agentId, request.context.seenUpTo);
    return state === null ? this.issue(request, newId(), false) : this.open(request.agentId, state);
  }

  /**
   * Replaces the agent's token. `seed` is the same for every attempt of one request, so that a repeat returns the same token; null makes a
   * new one. Throws `agent_not_found`.
   */
  async rotate(request: TokenRequest, seed: string | null): Promise<string> {
    await this.agents.load(request.agentId, request.accountId, request.context.seenUpTo);
    return this.issue(request, seed === null ? newId() : uuidv5('webhook token', seed), true);
  }

  /** Returns the state of the agent's token; null if none was issued. */
  async load(agentId: string, upTo?: Position): Promise<WebhookTokenState> {
    return (await this.aggregates.load(streamOf(agentId), webhookTokenDecider, upTo)).state;
  }

  /** Like `load`, for an unauthenticated caller at that address. Throws `rate_limited`; see `Aggregates.loadForAnonymous`. */
  async loadForStranger(agentId: string, address: string, upTo?: Position): Promise<WebhookTokenState> {
    const network = networkOf(address, NETWORK_BITS);
    return (await this.aggregates.loadForAnonymous(network, streamOf(agentId), webhookTokenDecider, upTo)).state;
  }

  private async issue({ agentId, context }: TokenRequest, tokenId: string, replaces: boolean): Promise<string> {
    const token = `${PREFIX}${base62(randomBytes(RANDOM_BYTES))}`;
    const sealed = await this.keyring.seal(agentId, contextOf(tokenId), token);
    const command = { type: 'IssueToken' as const, agentId, tokenId, sealed, sha256: sha256Of(token), replaces };
    const { state } = await this.aggregates.execute(streamOf(agentId), webhookTokenDecider, command, context);
    // A concurrent request may have issued one.
    return this.open(agentId, state);
  }

  private async open(agentId: string, state: WebhookTokenState): Promise<string> {
    const token = state === null ? null : await this.keyring.open(agentId, contextOf(state.id), state.sealed);
    if (token === null) throw agentNotFound();
    return token;
  }
}

/** Returns the SHA-256 in hex. A token has 256 random bits, so no slow hash is needed. */
export function sha256Of(token: string): string {
  return hash('sha256', token);
}

function streamOf(agentId: string): string {
  return `webhook-${agentId}`;
}

function contextOf(tokenId: string): string {
  return `webhook token ${tokenId}`;
}
