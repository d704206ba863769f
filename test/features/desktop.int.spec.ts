import { spawnSync } from 'node:child_process';

import { desktopPrograms } from '../../src/platform/runtime/local/computer-image.ts';
import { localUnderTest } from '../support/local-under-test.ts';
import { desktopContract } from './desktop.contract.ts';

const missing = Object.keys(desktopPrograms).filter((program) => spawnSync('which', [program]).status !== 0);

// Continuous integration has the programs; a laptop may be without them.
if (missing.length === 0 || process.env['CI'] !== undefined) desktopContract('local', localUnderTest, false);
else {
  it('a desktop on the local runtime', () => {
    const packages = missing.map((program) => desktopPrograms[program]);
    console.warn(`${packages.join(', ')} of Debian: not installed, and the desktop was NOT tried`);
  });
}
