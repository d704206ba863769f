import { parentPort } from 'node:worker_threads';

import { answerOf, type SourceQuestion } from './source-reading.ts';

parentPort?.on('message', (question: SourceQuestion) => parentPort?.postMessage(answerOf(question)));
parentPort?.postMessage('ready');
