import { statSync } from 'node:fs';
import { totalmem } from 'node:os';

import { parseImageReference } from '../network/image-reference.ts';
import { originOf } from './origin-of.ts';
import type { SettingReader } from './setting-reader.ts';

const MIB = 1_048_576;
/** The part of the machine's memory that computers may take. */
const MACHINE_SHARE = 0.75;

/** The least memory in which a desktop shows anything, MiB. */
const DESKTOP_MB = 512;

/** Reads the settings of computers. */
export function readComputerSettings(read: SettingReader) {
  const machine = Math.max(1, Math.floor((totalmem() / MIB) * MACHINE_SHARE));
  const computersMemoryMaxMb = read.integer('MOORING_COMPUTERS_MEMORY_MAX_MB', machine, DESKTOP_MB, 1_000_000_000);
  return {
    computerImage: readImage(read),
    computersMemoryMaxMb,
    computersMemoryPerAccountMb: Math.floor(computersMemoryMaxMb / 2),
    viewerFrameAncestors: read.all(
      'MOORING_VIEWER_FRAME_ANCESTORS',
      originOf,
      'must be origins such as https://app.example.com, without wildcards',
    ),
  };
}

function readImage(read: SettingReader): string | null {
  const given = read.text('MOORING_COMPUTER_IMAGE');
  if (given === null) return null;
  const isFound = /^[./]/.test(given) ? statSync(given, { throwIfNoEntry: false })?.isFile() === true : parseImageReference(given) !== null;
  if (!isFound)
    read.problems.push(
      'MOORING_COMPUTER_IMAGE must be [registry/]name[:tag], or the path of a tar that is there, which begins with / or .',
    );
  return given;
}
