import Dockerode from 'dockerode';

import { TestRegistry } from '../../../../test/support/test-registry.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { pull } from './registry.ts';

const SILENCE_MS = 1_500;
const NO_PROGRESS = /made no progress for 1.5 s/;

describe('a pull', () => {
  const never = new AbortController().signal;
  let registry: TestRegistry;

  beforeEach(async () => void (registry = await TestRegistry.start({ credential: null })));
  afterEach(() => registry.close());

  const pulled = () => pull(new Dockerode(), registry.image, () => undefined, never, { silenceMs: SILENCE_MS });

  it('is aborted if the registry does not begin a layer', async () => {
    void registry.held.hold(/\/blobs\//);
    const given = pulled();
    await expect(given).rejects.toThrow(NO_PROGRESS);
    await expect(given).rejects.toThrow(RuntimeRefused);
  });

  it('is aborted if a layer trickles for ever', async () => {
    registry.trickle = true;
    await expect(pulled()).rejects.toThrow(NO_PROGRESS);
  });
});
