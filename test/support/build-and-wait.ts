/**
 * Builds a Dockerfile whose step waits, as a service of the installation would: for tests that kill the service meanwhile. The arguments are the
 * installation's id, the image to begin at, the path of the builder's image, and the folder with the Dockerfile.
 */
import { DockerRuntime } from '../../src/runtime/docker/docker-runtime.ts';
import { testContainerKey } from './container-key.ts';

const [instance = '', base = '', image = '', directory = ''] = process.argv.slice(2);
const builder = { image, appArmor: 'unconfined', cacheMb: 400, caches: 4, builders: 1 };
const runtime = new DockerRuntime({
  instance,
  containerKey: testContainerKey(instance),
  helperImage: null,
  ociRuntime: null,
  egress: 'all',
  builder,
});
const bases = [{ kind: 'reference' as const, reference: base, mayUse: async () => true }];
const source = { kind: 'dockerfile' as const, directory, dockerfile: 'Dockerfile', start: ['x'], accountId: 'service', bases };
await runtime.ensureImage(source, (line) => console.log(line), new AbortController().signal);
