import { eventDefinitions } from '../app.module.ts';
import { migrateStore, runTool, UsageError } from '../operations/index.ts';
import { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';

const usage = `usage: npm run migrate-store -- --from <store> --to <store>
       a store is postgres (the service's database), a postgres://… or an esdb://…`;

const options = { from: { type: 'string' }, to: { type: 'string' } } as const;

await runTool(usage, options, async ({ config, words, values, print: say }) => {
  const { from, to } = values;
  if (typeof from !== 'string' || typeof to !== 'string' || words.length > 0) throw new UsageError('give --from and --to');
  for (const { eventClass, events, before, sha256 } of await migrateStore(config, new EventCatalogue(eventDefinitions), { from, to }))
    say(`${eventClass}: ${events} events in both, ${before} of them there before, sha256 ${sha256}`);
  say('The read models were emptied; start the service with EVENT_STORE set to the new store.');
});
