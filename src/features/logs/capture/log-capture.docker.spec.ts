import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { capturing, type Printer } from '../../../../test/contracts/log-capture.contract.ts';

const shell = `printf %s "$BYTES" | base64 -d; i=$FIRST; last=$((FIRST + COUNT)); while [ $i -lt $last ]; do echo "line $i"; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.01; done; [ "$STAYS" = no ] || exec sleep 300`;

async function dockerPrinter(): Promise<Printer> {
  const bed = await DockerFixture.open();
  return { runtime: bed.runtime, image: bed.image, command: ['/bin/busybox', 'sh', '-c', shell], close: () => bed.close() };
}

describe('captured output of Docker', () => {
  capturing(dockerPrinter);
});
