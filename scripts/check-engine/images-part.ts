import { findImage } from '../../src/runtime/docker/image-sources/registry.ts';
import { EngineRegistry } from './engine-registry.ts';
import { check, notTried, type Exception } from './outcome.ts';
import { agentNamed, type Part, type Walk } from './step.ts';
import { AGENT_PORT, serverOn } from './walk-images.ts';

const FIRST = 'an image of the engine runs';
const KEPT = 5;
const VERSIONS = KEPT + 2;

const agent = (walk: Walk): string => agentNamed(walk, 'image');

/** Deployments of images from the engine and from a registry. */
export const imagesPart: Part = {
  name: 'images',
  steps: [
    { name: FIRST, seconds: 120, run: runs },
    { name: 'it is redeployed with another image, and rolled back', seconds: 180, needs: FIRST, run: redeploys },
    { name: 'its tag moves to another image: a restart still gives the first', seconds: 120, needs: FIRST, run: moves },
    { name: 'a stop and a start still give the first', seconds: 120, needs: FIRST, run: startsAgain },
    { name: 'a deep sleep and a wake still give the first', seconds: 120, needs: FIRST, run: wakes },
    { name: 'a deployment gives the other, and a rollback the first', seconds: 180, needs: FIRST, run: rollsBack },
    { name: 'of seven images of a registry the newest five are kept, and a rollback brings one back', seconds: 300, run: keepsNewest },
  ],
};

async function runs(walk: Walk): Promise<void> {
  const image = await walk.images.make('1', 'image 1');
  walk.agents.set('image', await walk.api.provision('image', { image: 'docker', image_name: image }));
  await walk.api.replies(agent(walk), 'image 1');
}

async function redeploys(walk: Walk): Promise<void> {
  const [first] = await walk.api.deployments(agent(walk));
  await walk.api.deploy(agent(walk), { image_name: await walk.images.make('2', 'image 2') });
  await walk.api.replies(agent(walk), 'image 2');
  await walk.api.rollBack(agent(walk), first.id);
  await walk.api.replies(agent(walk), 'image 1');
}

/** An operator who rebuilds an image moves its tag in the same way. */
async function moves(walk: Walk): Promise<void> {
  await walk.images.make('1', 'image 1, made anew');
  await walk.api.change(agent(walk), 'restart', 'active');
  await isFirst(walk);
}

async function startsAgain(walk: Walk): Promise<void> {
  await walk.api.change(agent(walk), 'stop', 'stopped');
  await walk.api.change(agent(walk), 'start', 'active');
  await isFirst(walk);
}

async function wakes(walk: Walk): Promise<void> {
  await walk.api.change(agent(walk), 'sleep', 'sleeping');
  await walk.api.until(async () => ((await walk.engine.containerOf(agent(walk))).State.Status === 'exited' ? true : undefined));
  await isFirst(walk);
}

async function rollsBack(walk: Walk): Promise<void> {
  const records = await walk.api.deployments(agent(walk));
  await walk.api.deploy(agent(walk), { image_name: `${walk.images.repository}:1` });
  await walk.api.replies(agent(walk), 'image 1, made anew');
  await walk.api.rollBack(agent(walk), records.at(-1).id);
  await isFirst(walk);
}

async function isFirst(walk: Walk): Promise<void> {
  const { reply } = await walk.api.chat(agent(walk), 'hello');
  check(reply === 'image 1', `the agent replied “${reply}”, and “image 1” was expected`);
}

async function keepsNewest(walk: Walk): Promise<Exception | void> {
  const registry = await EngineRegistry.start(walk.engine, walk.images);
  try {
    return await keepsNewestOf(walk, registry);
  } finally {
    await registry.close();
  }
}

async function keepsNewestOf({ api, engine, images }: Walk, registry: EngineRegistry): Promise<Exception | void> {
  const publish = async (version: number): Promise<string | null> => {
    // The content is unique to this check: an image that the engine already had would be kept for others.
    const files = await images.filesOf(`pulled ${version} of ${engine.suffix}`);
    return files === null ? null : registry.publish(`v${version}`, files, serverOn(AGENT_PORT));
  };
  // An image that the engine had before its deployment would be kept, too.
  const tried = await publish(0);
  const first = await publish(1);
  if (tried === null || first === null) return notTried('this machine has no static busybox that the engine could run');
  if (!(await engine.pulls(tried))) return notTried('the engine pulls nothing from a registry on the loopback address of its own machine');
  const agentId = await api.provision('pulled', { image: 'docker', image_name: first });
  const ids = [await engine.idOf(first)];
  for (let version = 2; version <= VERSIONS; version += 1) {
    const name = (await publish(version)) ?? '';
    await api.deploy(agentId, { image_name: name });
    ids.push(await engine.idOf(name));
  }
  const records = (await api.deployments(agentId)).toReversed();
  const present = () => Promise.all(ids.map(async (id) => (await findImage(engine.docker, id)) !== null));
  await api.until(async () => ((await present()).slice(0, VERSIONS - KEPT).includes(true) ? undefined : true));
  await api.rollBack(agentId, records[VERSIONS - KEPT].id);
  await api.replies(agentId, `pulled ${VERSIONS - KEPT + 1} of`);
  const left = (await present()).slice(VERSIONS - KEPT);
  check(!left.includes(false), `of the newest five these are there, the oldest first: ${left.join(', ')}`);
  // The oldest image is pulled from its registry again.
  await api.rollBack(agentId, records[0].id);
  await api.replies(agentId, 'pulled 1 of');
}
