import type { Builder } from '../../kernel/config/config.ts';
import { parseImageReference } from '../../kernel/network/image-reference.ts';
import { refuse, printable, type Instruction } from './dockerfile-parser.ts';

export const onlyBuildKit =
  "the engine's own builder does not have, or not safely. The operator can have it built: MOORING_BUILDER=buildkit.";

/** The flags that an instruction may have for BuildKit, each with its values. */
const buildKitFlags: Record<string, Record<string, RegExp | null>> = {
  ADD: { chown: /./, chmod: /./, exclude: /./, link: null, unpack: null },
  COPY: { from: /./, chown: /./, chmod: /./, exclude: /./, link: null, parents: null },
  FROM: { platform: /./ },
  HEALTHCHECK: { interval: /./, timeout: /./, 'start-period': /./, 'start-interval': /./, retries: /./ },
  RUN: { mount: /./ },
};
/** The same for the engine's own builder, whose checks are all that holds a Dockerfile. */
const engineFlags: Record<string, Record<string, RegExp>> = {
  ADD: { chown: /^[\w:]+$/ },
  COPY: { from: /^[\w./:@+-]+$/, chown: /^[\w.:${}-]+$/ },
  FROM: { platform: /^[\w/.${}-]+$/ },
  HEALTHCHECK: { interval: /^[\w.]+$/, timeout: /^[\w.]+$/, 'start-period': /^[\w.]+$/, 'start-interval': /^[\w.]+$/, retries: /^\d+$/ },
};
const isSwitch = /^(true|false)$/i;
/** The flags that would give a step rights of the builder's machine, or have the builder fetch an address. */
const refusedFlags: Record<string, string> = {
  'RUN network': 'chooses the network of a step, which is the same for all steps of a build',
  'RUN security': 'asks for rights beyond those of a build',
  'RUN device': 'asks for a device of the machine',
  'ADD keep-git-dir': 'fetches a Git repository',
  'ADD checksum': 'fetches an address',
};
const mountTypes = new Set(['bind', 'cache', 'tmpfs', 'secret']);

/** Throws `RepositoryRefused` for a flag that the instruction may not have. */
export function checkFlags({ name, flags, line }: Instruction, builder: Builder): void {
  for (const flag of flags) {
    const written = printable(`--${flag.name}${flag.value === null ? '' : `=${flag.value}`}`);
    const reason = refusedFlags[`${name} ${flag.name}`];
    if (reason !== undefined) refuse(line, `has ${name} ${written}, which ${reason}. That is refused.`);
    const isBuildKit = isAllowed(flag, buildKitFlags[name]);
    // The word `--` alone ends the flags.
    if (builder === 'buildkit' ? isBuildKit || flag.name === '' : isAllowed(flag, engineFlags[name])) continue;
    if (isBuildKit) refuse(line, `has ${name} ${written}, which ${onlyBuildKit}`);
    refuse(line, `has ${name} ${written}, which is refused.`);
  }
}

function isAllowed({ name, value }: Instruction['flags'][number], known: Record<string, RegExp | null> = {}): boolean {
  const values = Object.hasOwn(known, name) ? known[name] : undefined;
  if (values === undefined) return false;
  return values === null ? value === null || isSwitch.test(value) : value !== null && values.test(value);
}

/** Returns the stages and images whose files a RUN mounts. Throws `RepositoryRefused` for mounts of other kinds. */
export function sourcesOfMounts({ flags, line }: Instruction): string[] {
  const sources: string[] = [];
  for (const { name, value } of flags) {
    if (name !== 'mount') continue;
    for (const field of (value ?? '').split(',')) {
      const at = field.indexOf('=');
      const key = (at === -1 ? field : field.slice(0, at)).toLowerCase();
      const text = at === -1 ? '' : field.slice(at + 1);
      if (key === 'type' && text.toLowerCase() === 'ssh')
        refuse(line, 'has RUN --mount=type=ssh, and builds have no keys to other machines. That is refused.');
      if (key === 'type' && !mountTypes.has(text.toLowerCase()))
        refuse(line, `has RUN --mount of the type ${printable(text)}, which is refused.`);
      if (key === 'from') sources.push(text);
    }
  }
  return sources;
}

/** Returns the name of an image. Throws `RepositoryRefused` if it is none. */
export function checkedImage(name: string, line: number): string {
  // Builders may take a number for one of a stage.
  if (parseImageReference(name) === null || /^\d+$/.test(name))
    refuse(line, `takes files from ${JSON.stringify(printable(name))}, which is not the name of an image.`);
  return name;
}
