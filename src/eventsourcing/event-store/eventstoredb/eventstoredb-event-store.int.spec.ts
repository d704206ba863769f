import { contractCatalogue, newEvent, type ContractSubject } from '../../../../test/support/event-store-contract.ts';
import { eventStoreDbLocation } from '../../../../test/support/eventstoredb/location.ts';
import { span } from '../../../../test/support/until.ts';
import { eventStoreContract } from '../../../../test/contracts/event-store.contract.ts';
import { EventStoreDbEventStore } from './eventstoredb-event-store.ts';

async function subject(): Promise<ContractSubject> {
  const place = await eventStoreDbLocation();
  const opened: EventStoreDbEventStore[] = [];
  const open = async () => {
    const store = new EventStoreDbEventStore(place.url, place.prefix, contractCatalogue);
    opened.push(store);
    return store;
  };
  const store = await open();
  const slow = await open();
  return {
    store,
    another: open,
    removeExpired: async () => place.fake?.log.scavenge(),
    async appendSlowly(stream, revision, milliseconds) {
      const appended = slow.append(stream, revision < 0 ? 'no_stream' : revision, [newEvent()]);
      await span(milliseconds);
      await appended;
    },
    async close() {
      await Promise.all(opened.map((each) => each.close()));
      await place.close();
    },
  };
}

eventStoreContract('EventStoreDB', subject);
