import { agentConnectionPool } from '../../../agent-protocol/agent-connection-pool.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { LogFollower, LogListener } from '../../../eventsourcing/log/log-follower.ts';
import { AgentConnections } from './agent-connections.service.ts';

describe('connections that are kept to an agent', () => {
  let listener: LogListener;
  const follower = {
    listen: (given: LogListener) => {
      listener = given;
      return () => undefined;
    },
  } as unknown as LogFollower;
  let closed: jest.SpiedFunction<typeof agentConnectionPool.closeIdleOf>;
  let connections: AgentConnections;
  let allClosed: jest.SpiedFunction<typeof agentConnectionPool.closeIdle>;

  beforeEach(() => {
    closed = jest.spyOn(agentConnectionPool, 'closeIdleOf').mockImplementation(() => undefined);
    allClosed = jest.spyOn(agentConnectionPool, 'closeIdle').mockImplementation(() => undefined);
    connections = new AgentConnections(follower);
  });

  afterEach(() => {
    connections.onModuleDestroy();
    jest.restoreAllMocks();
  });

  it('are closed when something happens to it, and those to no other agent', () => {
    const event = (stream: string, type: string) => ({ stream, type }) as StoredEvent;
    listener.onEvents([event('agent-a1', 'AgentSleepRequested'), event('conversation-c1', 'MessageReceived')], '1');
    expect(closed.mock.calls).toEqual([['a1']]);
    expect(allClosed).not.toHaveBeenCalled();
  });

  it('are closed for all agents when events were missed', () => {
    listener.onGap?.('1');
    expect(allClosed).toHaveBeenCalledTimes(1);
  });
});
