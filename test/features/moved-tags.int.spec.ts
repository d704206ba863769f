import Dockerode from 'dockerode';

import { closeServer, runtimeOn } from '../support/engine-runtime.ts';
import { FakeDockerEngine } from '../support/fake-docker-engine/fake-docker-engine.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { movedTags } from './moved-tags.contract.ts';

const SHARED = 'operator/shared:1';

describe.each(['graph', 'containerd'] as const)('on an engine with the %s store of images', (store) => {
  let engine: FakeDockerEngine;
  let server: TestServer;
  movedTags(
    async () => {
      engine = await FakeDockerEngine.start({ store });
      const docker = new Dockerode({ socketPath: engine.socket });
      const runtime = runtimeOn(docker, 'abcdef012345', async () => ['93.184.216.34']);
      server = await startFeatureServer({ ...runningFeatures(runtime), environment: { MOORING_SHARED_IMAGES: SHARED } });
      const publish = async (tag: string, content: string) => {
        const reference = `registry.example/team/agent:${tag}`;
        engine.images.publish(reference, content);
        return reference;
      };
      return { docker, server, shared: SHARED, publish };
    },
    async () => {
      await closeServer(server);
      await engine?.close();
    },
  );
});
