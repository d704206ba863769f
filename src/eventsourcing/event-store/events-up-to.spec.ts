import { EventStoreUnavailable, type Position } from './event-store.ts';
import { eventsUpTo } from './events-up-to.ts';

const at = (position: number): Position => String(position).padStart(20, '0');

async function readUpTo(end: Position, has: Position, endsAt: Position): Promise<void> {
  const read = async (after: Position) => ({ events: [], upTo: after < has ? has : after });
  for await (const events of eventsUpTo(at(0), end, read, async () => endsAt)) void events;
}

describe('reading up to the end of a log', () => {
  it('fails if the log ends earlier on the node that is read', async () => {
    await expect(readUpTo(at(9), at(5), at(5))).rejects.toBeInstanceOf(EventStoreUnavailable);
  });

  it('ends if only events that do not concern the reader follow', async () => {
    await expect(readUpTo(at(9), at(5), at(9))).resolves.toBeUndefined();
    await expect(readUpTo(at(9), at(9), at(9))).resolves.toBeUndefined();
  });
});
