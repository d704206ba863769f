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

/** The settings of computers. */
export class ComputerSettings {
  /**
   * The image of computers: a name, or the path of a tar of it (`docker save`), which begins with `/` or `.`.
   * @default made by the engine
   */
  computerImage: string | null;
  /**
   * The MiB that all computers together may take while they are awake or frozen. One account may take half.
   * @default three quarters of the memory of the service's machine
   */
  computersMemoryMaxMb: number;
  /** The half of that, which the computers of one account may take. One computer is always allowed. */
  computersMemoryPerAccountMb: number;
  /** The origins, besides the service's own, whose pages may show the page of a viewer in a frame, such as `https://app.example.com`. */
  viewerFrameAncestors: string[];
}

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
    read.found.push('MOORING_COMPUTER_IMAGE must be [registry/]name[:tag], or the path of a tar that is there, which begins with / or .');
  return given;
}
