import process from 'node:process';

// This is the same story, with the log in EventStoreDB.
process.env.EVENT_STORE = 'eventstoredb';
await import('./story.e2e.spec.ts');
