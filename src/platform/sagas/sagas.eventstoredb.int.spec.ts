import process from 'node:process';

// These are the same tests, with the log in EventStoreDB.
process.env.EVENT_STORE = 'eventstoredb';
await import('./sagas.int.spec.ts');
