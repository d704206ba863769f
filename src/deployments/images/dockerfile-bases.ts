import { RepositoryRefused } from '../../platform/git/repository-refused.ts';
import { parseImageReference } from '../../platform/image-reference.ts';

const BASES_MAX = 16;
/** Control characters other than the tab, and spaces that the engine may not take for such. */
const hiddenCharacters = /(?!\t)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
const known = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(' '),
);
/** The flags that an instruction may have, exactly as they are written here: the engine itself removes quotes and backslashes from flags. */
const flagsOf: Record<string, RegExp> = {
  ADD: /^--(chown|chmod)=[\w:]+$/,
  COPY: /^--(from=[\w./:@+-]+|chown=[\w.:${}-]+|chmod=\w+)$/,
  FROM: /^--platform=[\w/.${}-]+$/,
  HEALTHCHECK: /^--(interval|timeout|start-period|start-interval|retries)=[\w.]+$/,
};
const stageName = /^[a-z][a-z0-9_.-]*$/;

interface Instruction {
  name: string;
  flags: string[];
  words: string[];
}

/**
 * Returns the images that a Dockerfile of strangers takes files from, for the caller to check and to pull before the build. Throws
 * `RepositoryRefused` for what the engine itself would fetch, and for what can't be read here exactly as the engine reads it.
 */
export function basesOf(dockerfile: string): string[] {
  const bases = new Set<string>();
  const stages: string[] = [];
  const values = new Map<string, string>();
  for (const instruction of instructionsOf(dockerfile)) {
    const { name, flags, words } = instruction;
    checkFlags(instruction);
    if (name === 'LABEL') checkLabels(words);
    if (name === 'ARG' && stages.length === 0) addValues(values, words);
    if (name === 'FROM') {
      const base = withValues(words[0] ?? '', values);
      if (base !== 'scratch' && !stages.includes(base.toLowerCase())) bases.add(checkedBase(base));
      stages.push(stageOf(words));
    }
    if (name === 'ONBUILD') throw new RepositoryRefused('The Dockerfile has ONBUILD, which is refused.');
    if (name === 'ADD') checkAdd(instruction);
    if (name === 'COPY') {
      const from = flags.map((flag) => /^--from=(.*)$/.exec(flag)?.[1]).find((found) => found !== undefined);
      if (from !== undefined && !isStage(from, stages)) bases.add(checkedBase(from));
    }
  }
  if (stages.length === 0) throw new RepositoryRefused('The Dockerfile has no FROM.');
  if (bases.size > BASES_MAX) throw new RepositoryRefused(`The Dockerfile takes files from more than ${BASES_MAX} images.`);
  return [...bases];
}

/**
 * Joins continued lines and leaves out comments as the engine does. Versions of the engine differ in which lines continue, so a line is
 * refused that is joined here but could begin an instruction there.
 */
function instructionsOf(dockerfile: string): Instruction[] {
  const found: Instruction[] = [];
  let joined = '';
  for (const raw of dockerfile.replace(/^\ufeff/, '').split('\n')) {
    const line = raw.replace(/\r$/, '').replace(/^[ \t]+|[ \t]+$/g, '');
    if (hiddenCharacters.test(line))
      throw new RepositoryRefused('The Dockerfile holds control characters or unusual spaces, which are refused.');
    const escape = /^#\s*escape\s*=\s*(.*)$/i.exec(line)?.[1];
    if (escape !== undefined && escape !== '\\')
      throw new RepositoryRefused('The Dockerfile changes the escape character, which is refused.');
    if (line.startsWith('#') || line === '') continue;
    if (line.endsWith('\\\\')) throw new RepositoryRefused('The Dockerfile has a line that ends in two backslashes, which is refused.');
    if (joined !== '' && /^\W*(add|arg|copy|from|onbuild)\b/i.test(line))
      throw new RepositoryRefused('The Dockerfile continues an instruction with a line that begins like another one, which is refused.');
    // The space before a continued line may separate two words.
    const text = raw.replace(/[ \t\r]+$/, '');
    joined += line.endsWith('\\') ? text.slice(0, -1) : text;
    if (line.endsWith('\\')) continue;
    found.push(instructionOf(joined));
    joined = '';
  }
  if (joined.trim() !== '') found.push(instructionOf(joined));
  return found;
}

function instructionOf(line: string): Instruction {
  const [name = '', ...rest] = line.trim().split(/\s+/);
  const flagCount = rest.findIndex((word) => !word.startsWith('--'));
  const count = flagCount === -1 ? rest.length : flagCount;
  const instruction = { name: name.toUpperCase(), flags: rest.slice(0, count), words: rest.slice(count) };
  if (!known.has(instruction.name))
    throw new RepositoryRefused(`The Dockerfile has an unknown instruction: ${JSON.stringify(name.slice(0, 40))}.`);
  if (['ADD', 'COPY', 'RUN'].includes(instruction.name) && rest.some((word) => /^\d*<<-?[^<]/.test(word)))
    throw new RepositoryRefused(`The Dockerfile has a here-document in ${instruction.name}, which is refused.`);
  return instruction;
}

/**
 * Takes in the defaults of arguments before the first FROM. The engine gets no other values for them. A default that the engine could read
 * in another way is refused, since it could name another image.
 */
function addValues(values: Map<string, string>, words: string[]): void {
  for (const word of words) {
    const [, key, doubly, singly, bare] = /^([A-Za-z_]\w*)(?:=(?:"([^"'\\]*)"|'([^"'\\$]*)'|([^"'\\]*)))?$/.exec(word) ?? [];
    if (key === undefined || values.has(key))
      throw new RepositoryRefused('The Dockerfile has an ARG before FROM that is set twice, or is more than NAME=value.');
    values.set(key, withValues(doubly ?? singly ?? bare ?? '', values));
  }
}

function withValues(text: string, values: ReadonlyMap<string, string>): string {
  return text.replaceAll(
    /\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g,
    (whole, braced?: string, bare?: string) => values.get(braced ?? bare ?? '') ?? whole,
  );
}

/** Returns the name that FROM gives its stage; empty if it gives none. */
function stageOf([, as = '', name = '', ...more]: string[]): string {
  const lower = name.toLowerCase();
  if (as !== '' && (as.toUpperCase() !== 'AS' || !stageName.test(lower) || more.length > 0))
    throw new RepositoryRefused('The Dockerfile has a FROM that is more than an image and AS with the name of a stage.');
  return lower;
}

function isStage(from: string, stages: readonly string[]): boolean {
  // The last stage is the one that is being built.
  if (/^\d+$/.test(from)) return Number(from) < stages.length - 1;
  return stages.slice(0, -1).includes(from.toLowerCase());
}

function checkedBase(name: string): string {
  // The engine takes a number for one of a stage.
  if (parseImageReference(name) === null || /^\d+$/.test(name))
    throw new RepositoryRefused(
      `The Dockerfile takes files from ${JSON.stringify(name.slice(0, 100))}, which is not the name of an image.`,
    );
  return name;
}

function checkFlags({ name, flags }: Instruction): void {
  const refused = flags.find((flag) => flagsOf[name]?.test(flag) !== true);
  if (refused !== undefined) throw new RepositoryRefused(`The Dockerfile has ${name} ${refused.slice(0, 40)}, which is refused.`);
}

/** Labels in the service's name would make a container of this image look like one of the service's own. */
function checkLabels(words: readonly string[]): void {
  const plain = words.map((word) => word.replace(/["'\\]/g, ''));
  if (plain.some((word, at) => /^mooring\.[^=]*=/i.test(word) || (at === 0 && /^mooring\./i.test(word))))
    throw new RepositoryRefused('The Dockerfile sets a label that begins with "mooring.", which is this service\'s own.');
}

/** ADD also fetches addresses, by the engine itself. Only plain words are let through, since quotes and variables could hide one. */
function checkAdd({ words }: Instruction): void {
  const isPlain = words.every((word) => /^[\w.,=*?/@+-]+$/.test(word) && !word.startsWith('git@'));
  if (!isPlain)
    throw new RepositoryRefused(
      'The Dockerfile has an ADD that may fetch an address, which is refused. Use COPY for files of the repository.',
    );
}
