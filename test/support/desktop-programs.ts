import { spawnSync } from 'node:child_process';

import { desktopPrograms } from '../../src/runtime/local/computer-image.ts';

/**
 * Declares tests that need the programs of a desktop. Continuous integration has them; on a laptop without them, a test says which packages are
 * missing instead.
 */
export function withDesktopPrograms(name: string, declare: () => void): void {
  const missing = Object.keys(desktopPrograms).filter((program) => spawnSync('which', [program]).status !== 0);
  if (missing.length === 0 || process.env['CI'] !== undefined) declare();
  else {
    it(name, () => {
      const packages = missing.map((program) => desktopPrograms[program]);
      console.warn(`${packages.join(', ')} of Debian: not installed, and the desktop was NOT tried`);
    });
  }
}
