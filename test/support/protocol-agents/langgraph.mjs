// A LangGraph server, as its own process: node langgraph.mjs <folder for its state>. It prints its port, and keeps its state when it is told to end.
import { fileURLToPath } from 'node:url';

import { startServer } from '@langchain/langgraph-api/server';

const graph = fileURLToPath(new URL('langgraph-graph.mjs', import.meta.url));
const { PORT = '0', HOST: hostname = '127.0.0.1' } = process.env;
const { host, cleanup } = await startServer({
  port: Number(PORT),
  nWorkers: 4,
  host: hostname,
  cwd: process.argv[2],
  graphs: { agent: `${graph}:graph` },
});
process.once('SIGTERM', () => void cleanup().then(() => process.exit(0)));
console.log(`port ${host.split(':').at(-1)}`);
