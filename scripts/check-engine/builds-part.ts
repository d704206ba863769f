import { findImage } from '../../src/runtime/docker/image-sources/registry.ts';
import { check, differs, type Exception } from './outcome.ts';
import { agentNamed, type Part, type Walk } from './step.ts';

const DOCKERFILE = 'a repository with a Dockerfile is built and runs';
const PROJECT = 'a repository without a Dockerfile is built, with a step of its own, and runs';
const BUILD_SECONDS = 300;
const KEPT = 5;
const VERSIONS = KEPT + 2;

/** The service's message if a Dockerfile can't be built for lack of a builder. */
const noBuilder = /No Dockerfile can be built/;

/** Builds of repositories, which are fetched from this machine. */
export const buildsPart: Part = {
  name: 'builds',
  steps: [
    { name: DOCKERFILE, seconds: BUILD_SECONDS * 3, run: buildsDockerfile },
    { name: 'a push and a redeployment bring its next commit', seconds: BUILD_SECONDS, needs: DOCKERFILE, run: redeploys },
    { name: 'it is rolled back twice', seconds: 120, needs: DOCKERFILE, run: rollsBack },
    { name: PROJECT, seconds: BUILD_SECONDS, run: buildsProject },
    { name: 'of seven builds the newest five are kept, and a rollback brings one back', seconds: 2 * BUILD_SECONDS, run: keepsNewest },
  ],
};

async function buildsDockerfile(walk: Walk): Promise<Exception | void> {
  await walk.images.make('base', 'base');
  push(walk, 1);
  try {
    walk.agents.set('dockerfile', await walk.api.provision('dockerfile', { image: 'auto', repo_url: walk.git.url('dockerfile') }));
  } catch (error) {
    if (noBuilder.test((error as Error).message)) return differs(`not available: ${(error as Error).message}`);
    throw error;
  }
  await walk.api.replies(agentNamed(walk, 'dockerfile'), 'built of commit 1');
}

function push({ git, images }: Walk, commit: number): void {
  const lines = [
    `FROM ${images.repository}:base`,
    'COPY commit /commit',
    `RUN /bin/busybox printf 'built of %s' "$(/bin/busybox cat /commit)" > /agent/version`,
  ];
  git.commit('dockerfile', { Dockerfile: `${lines.join('\n')}\n`, commit: `commit ${commit}` });
}

async function redeploys(walk: Walk): Promise<void> {
  push(walk, 2);
  await walk.api.deploy(agentNamed(walk, 'dockerfile'));
  await walk.api.replies(agentNamed(walk, 'dockerfile'), 'built of commit 2');
}

async function rollsBack(walk: Walk): Promise<void> {
  const agent = agentNamed(walk, 'dockerfile');
  const [second, first] = await walk.api.deployments(agent);
  for (const [deployment, commit] of [
    [first, 1],
    [second, 2],
  ] as const) {
    await walk.api.rollBack(agent, deployment.id);
    await walk.api.replies(agent, `built of commit ${commit}`);
  }
}

/** The server of a project, which responds with the content of a file. */
const server = `
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
const response = readFileSync('version.txt', 'utf8');
const answer = (to) => to.setHeader('content-type', 'application/json').end(JSON.stringify({ response }));
createServer((from, to) => from.resume().on('end', () => answer(to))).listen(process.env.PORT);
`;

async function buildsProject(walk: Walk): Promise<void> {
  const scripts = { build: 'node build.mjs', start: 'node server.mjs' };
  walk.git.commit('project', {
    'package.json': JSON.stringify({ name: 'walk', type: 'module', scripts }),
    'build.mjs': `import { writeFileSync } from 'node:fs';\nwriteFileSync('version.txt', 'made by its build');\n`,
    'server.mjs': server,
  });
  const agent = await walk.api.provision('project', { image: 'auto', repo_url: walk.git.url('project') });
  await walk.api.replies(agent, 'made by its build');
}

async function keepsNewest(walk: Walk): Promise<void> {
  const { api, engine, git } = walk;
  const pushVersion = (version: number) =>
    git.commit('versions', {
      'package.json': JSON.stringify({ name: 'versions', scripts: { start: 'node server.mjs' } }),
      'server.mjs': server,
      'version.txt': `version ${version}`,
    });
  pushVersion(1);
  const agent = await api.provision('versions', { image: 'auto', repo_url: git.url('versions') });
  for (let version = 2; version <= VERSIONS; version += 1) {
    pushVersion(version);
    await api.deploy(agent);
  }
  const records = (await api.deployments(agent)).toReversed();
  const names = records.map(({ image_name: name }) => String(name));
  check(new Set(names).size === VERSIONS, `the builds have these images: ${names.join(', ')}`);
  const present = () => Promise.all(names.map(async (name) => (await findImage(engine.docker, name)) !== null));
  await api.until(async () => ((await present()).slice(0, VERSIONS - KEPT).includes(true) ? undefined : true));
  await api.rollBack(agent, records[VERSIONS - KEPT].id);
  await api.replies(agent, `version ${VERSIONS - KEPT + 1}`);
  const left = (await present()).slice(VERSIONS - KEPT);
  check(!left.includes(false), `of the newest five these are there, the oldest first: ${left.join(', ')}`);
}
