import { FrameworkAgent, frameworkEnvironment, npmAnswers } from '../support/framework-agent.ts';
import { ModelServer } from '../support/model-server.ts';
import { StartedService } from '../support/started-service.ts';

/**
 * An agent of a framework's template keeps its conversation over sleep and deployments. OpenClaw and crewAI, whose packages are several
 * hundred MB, do the same in `npm run bench -- frameworks`. The test needs npm's registry: where it does not answer, it says so and passes.
 */

const TIMEOUT_MS = 600_000;

describe('an agent of the template langgraph', () => {
  let service: StartedService;
  let model: ModelServer;

  beforeAll(async () => {
    model = await ModelServer.start();
    service = await StartedService.start({ runtime: 'local', environment: frameworkEnvironment });
  });
  afterAll(async () => {
    await service?.dispose();
    await model?.stop();
  });

  it(
    'remembers its conversation after it was killed, frozen, stopped and deployed again',
    async () => {
      if (!(await npmAnswers())) return console.warn('npm’s registry does not answer, so LangGraph was not tried.');
      const agent = await FrameworkAgent.deploy(service, model, 'langgraph', TIMEOUT_MS);
      expect(await agent.says('#one')).toBe('I remember #one');
      await agent.kill(TIMEOUT_MS);
      expect(await agent.says('#killed')).toBe('I remember #one #killed');
      await agent.freeze();
      expect(await agent.says('#two')).toBe('I remember #one #killed #two');
      await agent.sleepDeeply(TIMEOUT_MS);
      expect(await agent.says('#three')).toBe('I remember #one #killed #two #three');
      await agent.redeploy(TIMEOUT_MS);
      expect(await agent.says('#four')).toBe('I remember #one #killed #two #three #four');
    },
    TIMEOUT_MS,
  );
});
