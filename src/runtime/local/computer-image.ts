import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { ResolvedImage } from '../image-source.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { PROGRAM_FOLDER } from './local-container.ts';
import { ensureProgramImage } from './program-image.ts';

const directory = fileURLToPath(new URL('../../../deploy/computer/desktop/', import.meta.url));
/** The programs of a desktop, and the Debian packages that contain them. */
export const desktopPrograms: Readonly<Record<string, string>> = {
  Xtigervnc: 'tigervnc-standalone-server',
  jwm: 'jwm',
  xrdb: 'x11-xserver-utils',
  xterm: 'xterm',
  chromium: 'chromium',
};

/** Copies the desktop's own programs; the others have to be installed on this machine. Throws `RuntimeRefused` if one is missing. */
export async function ensureComputerImage(images: string, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage> {
  await refuseIfMissing();
  const source = { kind: 'program', directory, language: 'node', start: [`${PROGRAM_FOLDER}/desktop`] } as const;
  return ensureProgramImage(images, { ...source, start: [...source.start] }, log, signal, { isDesktop: true });
}

async function refuseIfMissing(): Promise<void> {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean);
  const isThere = async (program: string) => {
    const found = await Promise.all(
      folders.map((folder) =>
        access(join(folder, program), constants.X_OK).then(
          () => true,
          () => false,
        ),
      ),
    );
    return found.includes(true);
  };
  const missing: string[] = [];
  for (const program of Object.keys(desktopPrograms)) if (!(await isThere(program))) missing.push(program);
  if (missing.length === 0) return;
  const packages = missing.map((program) => desktopPrograms[program]);
  throw new RuntimeRefused(
    `This machine lacks programs of a desktop (${missing.join(', ')}): install the ${packages.length === 1 ? 'package' : 'packages'} ${packages.join(', ')} of Debian, or start with MOORING_RUNTIME=docker.`,
  );
}
