import { FrameworkAgent, frameworkEnvironment, npmAnswers } from '../support/framework-agent.ts';
import { frameworkRepositories } from '../support/framework-repositories.ts';
import { GitServer } from '../support/git-server.ts';
import { ModelServer } from '../support/model-server.ts';
import { StartedService } from '../support/started-service.ts';

/**
 * An agent of a framework keeps its conversation over sleep and deployments, from a template and from a Git repository. Deployments of
 * OpenClaw and crewAI, whose packages have several hundred MB, are tested in `npm run bench -- frameworks`, and graphs in Python in
 * `langgraph-python.e2e.spec.ts`. The tests need npm's registry. If it does not answer, they report that and pass.
 */

const TIMEOUT_MS = 600_000;

describe('an agent of LangGraph', () => {
  let service: StartedService;
  let model: ModelServer;
  let git: GitServer;
  let isReached: boolean;

  beforeAll(async () => {
    isReached = await npmAnswers();
    if (!isReached) console.warn('npm’s registry does not answer, so LangGraph was not tried.');
    model = await ModelServer.start();
    git = await GitServer.start();
    const environment = { ...frameworkEnvironment, MOORING_ALLOW_PRIVATE_SOURCES: git.host };
    service = await StartedService.start({ runtime: 'local', environment });
  });
  afterAll(async () => {
    await service?.dispose();
    await git?.close();
    await model?.stop();
  });

  it('of the template remembers its conversation after it was killed, frozen, stopped and deployed again', async () => {
    if (!isReached) return;
    const agent = await FrameworkAgent.deploy(service, model.url, { templateId: 'langgraph' }, TIMEOUT_MS);
    expect(await agent.says('#one')).toBe('I remember #one');
    await agent.kill(TIMEOUT_MS);
    expect(await agent.says('#killed')).toBe('I remember #one #killed');
    await agent.freeze();
    expect(await agent.says('#two')).toBe('I remember #one #killed #two');
    await agent.sleepDeeply(TIMEOUT_MS);
    expect(await agent.says('#three')).toBe('I remember #one #killed #two #three');
    await agent.redeploy(TIMEOUT_MS);
    expect(await agent.says('#four')).toBe('I remember #one #killed #two #three #four');
  });

  it('of a repository with a graph in TypeScript does so too', async () => {
    if (!isReached) return;
    git.commit('graph', frameworkRepositories['langgraph-node'] ?? {});
    const agent = await FrameworkAgent.deploy(service, model.url, { repo_url: git.url('graph') }, TIMEOUT_MS);
    expect(await agent.says('#one')).toBe('I remember #one');
    await agent.freeze();
    expect(await agent.says('#two')).toBe('I remember #one #two');
    await agent.stopAndStart(TIMEOUT_MS);
    expect(await agent.says('#three')).toBe('I remember #one #two #three');
    await agent.redeploy(TIMEOUT_MS);
    expect(await agent.says('#four')).toBe('I remember #one #two #three #four');
  });
});
