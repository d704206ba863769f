import type { IncomingMessage } from 'node:http';

/** Returns the path and query that a request is routed by. */
export type UrlRewriter = (request: Pick<IncomingMessage, 'url' | 'headers'>) => string;
