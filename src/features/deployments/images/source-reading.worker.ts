import { parentPort } from 'node:worker_threads';

import { readSource, type SourceReadRequest } from './source-reading.ts';

parentPort?.on('message', (question: SourceReadRequest) => parentPort?.postMessage(readSource(question)));
parentPort?.postMessage('ready');
