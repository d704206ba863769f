import type { TestResponse, RequestOptions } from '../support/http-server.ts';

/**
 * The expected actor of an event: the holder of the key or of the session that was sent, the account of the new session, the agent of a
 * webhook, or an anonymous caller.
 */
type By = 'key' | 'session' | 'webhook' | 'anonymous';

export interface World {
  /** The session of an administrator. */
  session: string;
  key: string;
  keyId: string;
  accountId: string;
  /** The id of an active agent. */
  agentId: string;
  /** The id of a deployment in progress. */
  deploymentId?: string;
  /** The id of a message whose delivery has ended. */
  messageId?: string;
  /** The id of the computer that the acts are about. */
  computerId?: string;
  ask(method: string, path: string, options?: RequestOptions): Promise<TestResponse>;
}

export interface Act {
  /** The route as it stands in test/coverage/routes.txt. */
  route: string;
  /** The events that the request always appends. */
  leaves: readonly string[];
  /** The events that the request may append as well, depending on the moment. */
  mayLeave?: readonly string[];
  by: By;
  status: number;
  path: (world: World) => string;
  /** The method of the request, of a route that takes any. */
  method?: string;
  json?: (world: World) => object;
  /** The body of a request that is not JSON. */
  body?: { type: string; content: string };
  /** Prepares the state that the request needs, or restores it. */
  before?: (world: World) => Promise<unknown>;
  /** The value true holds rebuilds back during the request. */
  holdsRebuilds?: boolean;
}
