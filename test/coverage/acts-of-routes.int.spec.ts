import { eventDefinitions } from '../../src/app.module.ts';
import { acts } from './acts.ts';
import { routesOfTheService } from './service-routes.ts';

/** Routes whose acts other events tell: whoever gets a ticket for a viewer connects with it, which leaves `ViewerConnected`. */
const leaveNothing = ['POST /viewer/:token/tickets', 'ALL /a/:agentId'];

it('every route that changes something declares the events that it appends', async () => {
  const routes = await routesOfTheService();
  const mutations = routes.filter(({ method }) => method !== 'GET').map(({ method, path }) => `${method} ${path}`);
  expect([...acts.map(({ route }) => route), ...leaveNothing].toSorted()).toEqual(mutations.toSorted());
  const known = new Set(eventDefinitions.map(({ type }) => type));
  for (const { route, leaves } of acts)
    expect([route, leaves.length > 0, leaves.every((type) => known.has(type))]).toEqual([route, true, true]);
});
