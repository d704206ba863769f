import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import httpProxy from 'http-proxy';

/** The baseline for public traffic: `http-proxy` with default options, in front of the same agent. */
const proxy = httpProxy.createProxyServer({ target: process.env.BENCH_TARGET ?? '' });
proxy.on('error', (error) => console.error(error.message));
const server = createServer((request, response) => proxy.web(request, response));
server.listen(0, '127.0.0.1', () => console.info(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`));
