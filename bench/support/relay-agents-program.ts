import { FakeDockerEngine } from '../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { RELAY_IMAGE } from './relay-agents.ts';

/** The process of `startRelayAgents`. */
const engine = await FakeDockerEngine.start({ programs: { [RELAY_IMAGE]: messagesProgram() } });
process.once('disconnect', () => process.exit(0));
process.send?.({ environment: engine.environment });
process.on('message', (order) => {
  if (order === 'addresses')
    process.send?.({ addresses: engine.containers.bearing(['mooring.agent'], false).map(({ parts }) => parts.address) });
  else void engine.close().then(() => process.exit(0));
});
