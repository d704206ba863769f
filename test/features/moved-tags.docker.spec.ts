import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { answering } from '../support/answering-image.ts';
import { TestRegistry } from '../support/test-registry.ts';
import { movedTags } from './moved-tags.contract.ts';

describe('on a real engine', () => {
  let bed: DockerFixture;
  let server: TestServer;
  let registry: TestRegistry;
  movedTags(
    async () => {
      bed = await DockerFixture.open();
      registry = await TestRegistry.start({ credential: null });
      const shared = `mooring-test-${bed.instance}/shared:1`;
      const runtime = fixtureRuntime(bed);
      const environment = { MOORING_ALLOW_PRIVATE_SOURCES: '127.0.0.1', MOORING_SHARED_IMAGES: shared };
      server = await startFeatureServer({ ...runningFeatures(runtime), environment });
      const publish = async (tag: string, content: string) => registry.publish(tag, await answering.files(content), answering.command);
      return { docker: bed.docker, server, shared, publish };
    },
    async () => {
      await server?.close();
      registry?.close();
      await bed?.close();
    },
  );
});
