// A LangGraph server, as its own process: node langgraph.mjs <folder for its state>. It prints its port.
import { fileURLToPath } from 'node:url';

import { startServer } from '@langchain/langgraph-api/server';

const graph = fileURLToPath(new URL('langgraph-graph.mjs', import.meta.url));
const { host } = await startServer({ port: 0, nWorkers: 4, host: '127.0.0.1', cwd: process.argv[2], graphs: { agent: `${graph}:graph` } });
console.log(`port ${host.split(':').at(-1)}`);
