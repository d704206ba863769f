import { once } from 'node:events';
import { constants, setPriority } from 'node:os';

import { FakeDockerEngine } from '../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { hostileProgram } from '../../test/support/hostile-agent.ts';
import { REAL_IMAGE } from './real-agents.ts';

const HOSTILE_IMAGE = 'bench/hostile:1';

// The engine's limits bound what agents take of the processors; this measures what they do to the service.
setPriority(constants.priority.PRIORITY_LOW);
const engine = await FakeDockerEngine.start({ programs: { [HOSTILE_IMAGE]: hostileProgram() }, real: [REAL_IMAGE] });
process.once('disconnect', () => process.exit(0));
process.send?.({ environment: engine.environment });
await once(process, 'message');
await engine.close();
process.exit(0);
