import Dockerode from 'dockerode';

/** A container of one agent, read from the engine directly. */
export interface SeenContainer {
  id: string;
  state: string;
  startedAt: string;
}

const docker = new Dockerode();

export async function seenContainers(agentId: string): Promise<SeenContainer[]> {
  const listed = await docker.listContainers({ all: true, filters: { label: [`mooring.agent=${agentId}`] } });
  const views = await Promise.all(
    listed.map(({ Id }) =>
      docker
        .getContainer(Id)
        .inspect()
        .catch(() => null),
    ),
  );
  return views.flatMap((view) => (view === null ? [] : [{ id: view.Id, state: view.State.Status, startedAt: view.State.StartedAt }]));
}

export async function seenVolumes(agentId: string): Promise<string[]> {
  const { Volumes } = await docker.listVolumes({ filters: { label: [`mooring.agent=${agentId}`] } });
  return (Volumes ?? []).map(({ Name }) => Name);
}

/** Removes the container directly in the engine, as an operator could. */
export async function removeBehindOurBack(containerId: string): Promise<void> {
  await docker.getContainer(containerId).remove({ force: true });
}

/** Returns the engine's own count of starts of the agent's containers since a time (Unix seconds). */
export function startsSince(agentId: string, since: number): Promise<number> {
  return eventsSince(agentId, 'start', since);
}

/** Returns the engine's own count of such events of the agent's containers since a time (Unix seconds). */
export async function eventsSince(agentId: string, event: 'start' | 'unpause', since: number): Promise<number> {
  const until = Math.ceil(Date.now() / 1000) + 1;
  const stream = await docker.getEvents({
    since,
    until,
    filters: { type: ['container'], event: [event], label: [`mooring.agent=${agentId}`] },
  });
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  return text.split('\n').filter((line) => line.trim() !== '').length;
}
