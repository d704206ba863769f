import type { Builder } from '../../kernel/config/config.ts';
import { RepositoryRefused } from '../git/repository-refused.ts';
import { namesSameImage, parseImageReference } from '../../kernel/network/image-reference.ts';
import { checkedImage, checkFlags, onlyBuildKit, sourcesOfMounts } from './dockerfile-flags.ts';
import { parseDockerfile, refuse, printable, type Dockerfile, type Instruction } from './dockerfile-parser.ts';
import { assignmentWords, expand, NestingError, TooLongError, WordError, type CharacterBudget, type Expanded } from './dockerfile-words.ts';

const BASES_MAX = 16;
/** The characters that may be read of words and brought in by variables, in the whole file: values may double with each line. */
const EXPANDED_CHARACTERS_MAX = 1024 * 1024;
const stageName = /^[a-z][a-z0-9_.-]*$/;
const variableName = /^[A-Za-z_]\w*$/;
/** The frontend that BuildKit has built in. Any other would be a program that the builder fetches and runs. */
const ownSyntax = /^(docker\.io\/)?docker\/dockerfile(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$/;
/** A web address, or the form `user@host:path` of a Git repository. */
const address = /^([a-z][a-z0-9+.-]*:\/\/|[^\s/:@]+@[^\s/:@]+:|git@)/i;
/** The paths in which the engine's own builder can find no address. */
const plainPath = /^[\w.,=*?/@+-]+$/;
const architectures: Record<string, string> = { x64: 'amd64' };

/** Names of arguments that builders give values to themselves, or that change how BuildKit builds. */
const ofBuilders = /^(BUILDKIT_|SOURCE_DATE_EPOCH$|(TARGET|BUILD)(PLATFORM|OS|OSVERSION|ARCH|VARIANT|STAGE)$)/;

/** The images that a Dockerfile takes files from, and the values of the arguments that it declares. */
export interface DockerfileNeeds {
  bases: string[];
  args: Record<string, string>;
}

/** Returns the images that a Dockerfile takes files from, if each argument has the default of the Dockerfile. */
export function basesOf(dockerfile: string, builder: Builder): string[] {
  return needsOf(dockerfile, builder, {}).bases;
}

/**
 * Returns the images that a Dockerfile of strangers takes files from, for the caller to check and to make available before the build. Throws
 * `RepositoryRefused`, with the line, for what a builder would fetch by itself, and for what can't be read here exactly as the builder reads
 * it. BuildKit is also held by its source policy, so that a mistake here is refused there; the engine's own builder is held by this alone. The
 * arguments that the file declares get the values of that name among `given`, and the build has to get exactly these.
 */
export function needsOf(dockerfile: string, builder: Builder, given: Readonly<Record<string, string>>): DockerfileNeeds {
  const parsed = parseDockerfile(dockerfile);
  const check = new DockerfileCheck(parsed, builder, given);
  for (const instruction of parsed.instructions) check.next(instruction);
  return { bases: check.end(), args: Object.fromEntries(check.args) };
}

/** One pass over the instructions of a Dockerfile. */
class DockerfileCheck {
  private readonly bases = new Set<string>();
  private readonly stages: { name: string; line: number }[] = [];
  /** The names of the stages before the one that is being built. */
  private readonly stagesBefore = new Set<string>();
  /** The names of all stages. BuildKit knows those that come later, too. */
  private readonly stageNames: ReadonlySet<string>;
  private readonly stagesMax: number;
  /** The variables before the first FROM. */
  private readonly globals: Map<string, string>;
  private readonly declared = new Set<string>();
  /** The values that the build gets for arguments of the file. */
  readonly args = new Map<string, string>();
  /** The variables of the stage, as far as this file says them: its base image may have others. */
  private variables = new Map<string, string>();
  private readonly escape: string;
  private readonly budget: CharacterBudget = { characters: EXPANDED_CHARACTERS_MAX };

  constructor(
    { instructions, escape, directives }: Dockerfile,
    private readonly builder: Builder,
    private readonly given: Readonly<Record<string, string>>,
  ) {
    this.escape = escape;
    const names = instructions.filter(({ name }) => name === 'FROM').map(({ words }) => (words[2] ?? '').toLowerCase());
    this.stageNames = new Set(names.filter((name) => name !== ''));
    this.stagesMax = names.length;
    this.globals = builder === 'buildkit' ? platformVariables(names.at(-1) ?? '') : new Map();
    for (const { name, value, line } of directives) {
      if (name === 'syntax' && !ownSyntax.test(value))
        refuse(line, `asks for the syntax ${printable(value)}, a program that the builder would fetch. Remove the line.`);
      if (name === 'escape' && builder === 'engine' && value !== '\\') refuse(line, `changes the escape character, which ${onlyBuildKit}`);
    }
  }

  next(instruction: Instruction): void {
    const { name, line, source, heredocs } = instruction;
    if (source.includes('\ufffd')) refuse(line, 'is not in UTF-8.');
    if (heredocs.length > 0 && this.builder === 'engine') refuse(line, `has a here-document in ${name}, which ${onlyBuildKit}`);
    if (this.stages.length === 0 && name !== 'ARG' && name !== 'FROM') refuse(line, `has ${name} before the first FROM.`);
    this.step(instruction);
    if (name === 'FROM') this.from(instruction);
    if (name === 'ARG') this.arg(instruction);
    if (name === 'ENV') this.env(instruction);
    if (name === 'ONBUILD') this.onBuild(instruction);
  }

  end(): string[] {
    if (this.stages.length === 0) throw new RepositoryRefused('The Dockerfile has no FROM.');
    if (this.bases.size > BASES_MAX) throw new RepositoryRefused(`The Dockerfile takes files from more than ${BASES_MAX} images.`);
    if (this.builder === 'buildkit') this.checkStageNames();
    return [...this.bases];
  }

  /** BuildKit looks for the images that it is given by the names of stages too, and would take the image for the stage. */
  private checkStageNames(): void {
    const images = [...this.bases].map(parseImageReference).filter((image) => image !== null);
    for (const { name, line } of this.stages) {
      const named = parseImageReference(name);
      if (named !== null && images.some((image) => namesSameImage(image, named)))
        refuse(line, `gives a stage the name of an image that the file takes, ${name}. Give the stage another name.`);
    }
  }

  /** Checks what an instruction of a stage, or the trigger in one, would fetch or change. */
  private step(instruction: Instruction): void {
    checkFlags(instruction, this.builder);
    const { name, line } = instruction;
    if (name === 'LABEL') this.label(instruction);
    if (name === 'ADD') this.add(instruction);
    if (name === 'COPY') this.copy(instruction);
    if (name !== 'RUN') return;
    for (const source of sourcesOfMounts(instruction)) if (!this.stageNames.has(source.toLowerCase())) this.addBase(source, line);
  }

  private addBase(name: string, line: number): void {
    if (name !== 'scratch') this.bases.add(checkedImage(name, line));
  }

  private from({ words: [written = '', as, name = '', ...more], line }: Instruction): void {
    // The engine's own builder differs from version to version in what it makes of quotes.
    if (this.builder === 'engine' && /["'\\`]/.test(written))
      refuse(line, `has FROM ${printable(written)}, with quotes or escape characters.`);
    const { text, unset } = this.expanded(written, this.globals, line);
    // Another version of the engine might give them a value.
    const unknown = [...unset].find((each) => this.builder === 'engine' && /^(TARGET|BUILD)/.test(each));
    if (unknown !== undefined) refuse(line, `has FROM with the variable ${printable(unknown)}, which has no value here.`);
    if (text === '') refuse(line, 'has FROM without an image, or with variables that have no value.');
    const last = this.stages.at(-1)?.name ?? '';
    if (last !== '') this.stagesBefore.add(last);
    if (!this.stagesBefore.has(this.builder === 'engine' ? text.toLowerCase() : text)) this.addBase(text, line);
    const lower = name.toLowerCase();
    if (as !== undefined && (as.toUpperCase() !== 'AS' || !stageName.test(lower) || more.length > 0))
      refuse(line, 'has a FROM that is more than an image and AS with the name of a stage.');
    this.stages.push({ name: lower, line });
    this.variables = new Map();
  }

  /** Takes in the values of arguments: those that the build gets, or else their defaults. */
  private arg({ text, line }: Instruction): void {
    const isGlobal = this.stages.length === 0;
    const words = assignmentWords(text, this.escape);
    const takesValues = words.length > 1 && text.includes('$');
    if (words.length === 0) refuse(line, 'has ARG without a name.');
    for (const word of words) {
      const [name, value] = splitAssignment(word);
      const given = this.argument(name);
      if (!isGlobal) {
        const own = value ?? this.globals.get(name);
        if (given !== undefined) this.variables.set(name, given);
        else if (own !== undefined) this.variables.set(name, this.resolvedWord(own, line));
        continue;
      }
      if (!variableName.test(name)) refuse(line, `has ARG ${printable(name)} before FROM, which is no name of a variable.`);
      // Builders differ in these, so that the name of another image could come of them.
      if (this.builder === 'engine' && (this.declared.has(name) || takesValues))
        refuse(line, 'has an ARG before FROM that is set twice, or that uses another argument of the same line.');
      this.declared.add(name);
      if (given !== undefined) this.globals.set(name, given);
      else if (value !== null) this.globals.set(name, this.expanded(value, this.globals, line).text);
    }
  }

  /** Returns the value that the build gets for the argument, and notes that it does. */
  private argument(name: string): string | undefined {
    const value = Object.hasOwn(this.given, name) && !ofBuilders.test(name) ? this.given[name] : undefined;
    if (value !== undefined) this.args.set(name, value);
    return value;
  }

  private env(instruction: Instruction): void {
    const found = pairsOf(instruction, this.escape).map(([name, value]) => [name, this.resolvedWord(value, instruction.line)] as const);
    for (const [name, value] of found) this.variables.set(name, value);
  }

  private onBuild({ trigger, line }: Instruction): void {
    if (this.builder === 'engine') refuse(line, `has ONBUILD, which ${onlyBuildKit}`);
    // A trigger is read once more when it is run, and then with a backslash.
    if (this.escape !== '\\') refuse(line, 'has ONBUILD in a file that changes the escape character.');
    if (trigger === null || ['ONBUILD', 'FROM', 'MAINTAINER'].includes(trigger.name))
      refuse(line, 'has ONBUILD without an instruction for it.');
    this.step(trigger);
  }

  private copy({ flags, line }: Instruction): void {
    for (const { value: from } of flags.filter((flag) => flag.name === 'from')) {
      const isNumber = /^\d+$/.test(from ?? '');
      // BuildKit knows the stages that come later, and refuses by itself what is taken from them.
      const [names, count] = this.builder === 'engine' ? [this.stagesBefore, this.stages.length - 1] : [this.stageNames, this.stagesMax];
      if (isNumber && Number(from) >= count) refuse(line, `takes files from stage ${printable(from ?? '')}, which does not come before.`);
      if (!isNumber && !names.has((from ?? '').toLowerCase())) this.addBase(from ?? '', line);
    }
  }

  /** ADD also fetches addresses. For the engine's own builder only plain words are let through, since quotes and variables could hide one. */
  private add({ words, line }: Instruction): void {
    const isFetched = (word: string) =>
      this.builder === 'engine'
        ? !plainPath.test(word) || address.test(word)
        : address.test(word) || address.test(this.resolvedWord(word, line));
    if (words.some(isFetched))
      refuse(line, 'has an ADD that may fetch an address or a repository, which is refused. Use COPY for files of the repository.');
  }

  /** Labels in the service's name would make a container of this image look like one of the service's own. */
  private label(instruction: Instruction): void {
    const { line } = instruction;
    for (const [name] of pairsOf(instruction, this.escape)) {
      const { text, unset } = this.expanded(name, this.variables, line);
      if (unset.size > 0) refuse(line, `has a LABEL whose name holds variables, ${printable(name)}, which is refused.`);
      if (/^mooring\./i.test(text)) refuse(line, 'sets a label that begins with "mooring.", which is this service\'s own.');
    }
  }

  private expanded(word: string, variables: ReadonlyMap<string, string>, line: number): Expanded {
    try {
      return expand(word, { escape: this.escape, variables, budget: this.budget });
    } catch (error) {
      if (error instanceof TooLongError) refuse(line, 'has variables whose values are too long together.');
      if (error instanceof WordError) refuse(line, `has ${printable(word)}, which can't be read: ${error.message}.`);
      if (error instanceof NestingError) refuse(line, 'has too many variables inside of each other.');
      throw error;
    }
  }

  /** Returns the word as far as this file says what it is. What it does not say is held by the source policy. */
  private resolvedWord(word: string, line: number): string {
    try {
      return this.expanded(word, this.variables, line).text;
    } catch (error) {
      // Characters that were read in vain count as well.
      if (error instanceof RepositoryRefused && this.budget.characters >= 0) return '';
      throw error;
    }
  }
}

/** Returns the names and values of ENV and LABEL, which keep their quotes. */
function pairsOf({ name, text, line }: Instruction, escape: string): (readonly [string, string])[] {
  const found = assignmentWords(text, escape);
  // The old form has one name, and the rest of the line is its value.
  if (found[0]?.includes('=') !== true) {
    const nameEnd = text.search(/[\t\v\f\r ]|$/);
    return [[text.slice(0, nameEnd), text.slice(nameEnd)]];
  }
  return found.map((word) => {
    const [key, value] = splitAssignment(word);
    return value === null ? refuse(line, `has ${name} with ${printable(word)}, which is not name=value.`) : [key, value];
  });
}

function splitAssignment(word: string): [string, string | null] {
  const at = word.indexOf('=');
  return at === -1 ? [word, null] : [word.slice(0, at), word.slice(at + 1)];
}

/** Returns the variables that BuildKit sets for every build, on an engine of this machine's kind. */
function platformVariables(target: string): Map<string, string> {
  const arch = architectures[process.arch] ?? process.arch;
  const of = (prefix: string): [string, string][] => [
    [`${prefix}PLATFORM`, `linux/${arch}`],
    [`${prefix}OS`, 'linux'],
    [`${prefix}OSVERSION`, ''],
    [`${prefix}ARCH`, arch],
    [`${prefix}VARIANT`, ''],
  ];
  return new Map([...of('BUILD'), ...of('TARGET'), ['TARGETSTAGE', target === '' ? 'default' : target]]);
}
