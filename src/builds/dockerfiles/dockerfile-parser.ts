import { RepositoryRefused } from '../git/repository-refused.ts';
import { NestingError, plainWords, rawWords, trim, trimStart, WordError } from './dockerfile-words.ts';

const instructionNames = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(' '),
);
/** The instructions that may have here-documents, unless they are in JSON form. */
const heredocInstructions = new Set(['ADD', 'COPY', 'RUN']);
/** The instructions whose words are read. */
const wordInstructions = new Set(['ADD', 'FROM']);
const WORDS_MAX = 1_000;
/** Builders refuse longer lines. */
const LINE_BYTES_MAX = 64 * 1024;
/** Builders remove quotes and escape characters from flags, so that a flag that holds any could be another one. */
const plainFlag = /^--([a-z][a-z-]*)(?:=([\x21\x23-\x26\x28-\x5b\x5d-\x5f\x61-\x7e]*))?$/;
const directive = /^([a-zA-Z][a-zA-Z0-9]*)[\t\n\f\r ]*=[\t\n\f\r ]*(\S.*)$/;
const directives = new Set(['syntax', 'escape', 'check']);

export interface Flag {
  name: string;
  /** The value is null in a flag without "=". */
  value: string | null;
}

export interface Instruction {
  /** In upper case. */
  name: string;
  /** The number of its first line, from 1. */
  line: number;
  /** Its lines, joined, without comments. */
  source: string;
  flags: readonly Flag[];
  /** The rest after the flags, without the spaces around it. */
  text: string;
  /** The arguments of the JSON form; of ADD and FROM also those that are separated by spaces. Others are not read by words, and may have as many as they like. */
  words: readonly string[];
  isJson: boolean;
  /** The names of the here-documents that follow it. */
  heredocs: readonly string[];
  /** The instruction that an ONBUILD holds. */
  trigger: Instruction | null;
}

export interface Dockerfile {
  instructions: readonly Instruction[];
  escape: '\\' | '`';
  /** The comments before all instructions that look like `# name = value`, whether builders heed them or not. */
  directives: readonly { name: string; value: string; line: number }[];
}

/** Throws `RepositoryRefused` with a sentence that names the line. */
export function refuse(line: number, what: string): never {
  throw new RepositoryRefused(`Line ${line} of the Dockerfile ${what}`);
}

/**
 * Splits a Dockerfile into its instructions exactly as BuildKit's parser does (frontend/dockerfile/parser), in time that is linear in its size.
 * Throws `RepositoryRefused` for what builders refuse, and for flags that are not written plainly.
 */
export function parseDockerfile(text: string): Dockerfile {
  const lines = new Lines(text);
  const instructions: Instruction[] = [];
  for (let found = lines.nextInstruction(); found !== null; found = lines.nextInstruction()) {
    const { source, line } = found;
    const instruction = instructionOf(source, line);
    const heredocs = heredocsOf(instruction);
    for (const heredoc of heredocs) lines.passHeredoc(heredoc, line);
    instructions.push({ ...instruction, heredocs: heredocs.map(({ name }) => name) });
  }
  return { instructions, escape: lines.escape, directives: lines.directives };
}

/** The lines of a Dockerfile, of which directives, comments and here-documents are taken out. */
class Lines {
  escape: '\\' | '`' = '\\';
  readonly directives: { name: string; value: string; line: number }[] = [];
  private readonly lines: string[];
  private at = 0;
  private readonly seenDirectives = new Set<string>();
  private isDirectivePossible = true;
  private isAtTop = true;

  constructor(text: string) {
    this.lines = text.replace(/^\ufeff/, '').split('\n');
    if (this.lines.at(-1) === '') this.lines.pop();
  }

  /** Returns the next instruction with its continued lines in one, and the number of its first line; null at the end. */
  nextInstruction(): { source: string; line: number } | null {
    for (;;) {
      const first = this.next();
      if (first === null) return null;
      const line = this.at;
      const text = trimStart(first);
      if (this.isAtTop) this.readDirective(text, line);
      if (text.startsWith('#')) continue;
      const { content, isContinued } = this.continued(text);
      if (content === '' && !isContinued) continue;
      return { source: isContinued ? content + this.continuation() : content, line };
    }
  }

  /** Passes over the lines of a here-document. */
  passHeredoc({ name, isIndented }: Heredoc, line: number): void {
    for (let text = this.next(); text !== null; text = this.next()) if ((isIndented ? withoutTabs(text) : text) === name) return;
    refuse(line, `has the here-document ${JSON.stringify(name.slice(0, 40))} without its end.`);
  }

  private continuation(): string {
    const parts: string[] = [];
    for (let text = this.next(); text !== null; text = this.next()) {
      const visible = trimStart(text);
      if (visible === '' || visible.startsWith('#')) continue;
      const { content, isContinued } = this.continued(text);
      parts.push(content);
      if (!isContinued) break;
    }
    return parts.join('');
  }

  /** A line goes on in the next one if it ends in the escape character, unless that is escaped itself. */
  private continued(text: string): { content: string; isContinued: boolean } {
    let end = text.length;
    while (end > 0 && (text.charAt(end - 1) === ' ' || text.charAt(end - 1) === '\t')) end -= 1;
    const isContinued = end > 0 && text.charAt(end - 1) === this.escape && (end === 1 || text.charAt(end - 2) !== this.escape);
    return { content: isContinued ? text.slice(0, end - 1) : text, isContinued };
  }

  /** Returns the next line without its end; null after the last. */
  private next(): string | null {
    const text = this.lines[this.at];
    if (text === undefined) return null;
    this.at += 1;
    if (text.length * 3 >= LINE_BYTES_MAX && Buffer.byteLength(text) >= LINE_BYTES_MAX)
      refuse(this.at, `has more than ${LINE_BYTES_MAX / 1024} KiB.`);
    let end = text.length;
    while (end > 0 && text.charAt(end - 1) === '\r') end -= 1;
    // Builders differ in what they take off.
    if (text.length - end > 1) refuse(this.at, 'ends in more than one carriage return.');
    return text.slice(0, end);
  }

  private readDirective(text: string, line: number): void {
    const isComment = text.startsWith('#');
    this.isAtTop = isComment || text === '';
    const [, written = '', rest = ''] = isComment ? (directive.exec(trimStart(text.slice(1))) ?? []) : [];
    const name = written.toLowerCase();
    const value = trim(rest);
    if (name !== '') this.directives.push({ name, value, line });
    this.isDirectivePossible &&= directives.has(name);
    if (!this.isDirectivePossible) return;
    if (this.seenDirectives.has(name)) refuse(line, `has the directive ${name} for the second time.`);
    this.seenDirectives.add(name);
    if (name !== 'escape') return;
    if (value !== '\\' && value !== '`') refuse(line, 'names an escape character that is neither a backslash nor a backtick.');
    this.escape = value;
  }
}

function instructionOf(source: string, line: number): Instruction {
  const text = trim(source);
  const nameEnd = text.search(/[\t\v\f\r ]/);
  const written = nameEnd === -1 ? text : text.slice(0, nameEnd);
  const name = /^[a-zA-Z]+$/.test(written) ? written.toUpperCase() : '';
  if (!instructionNames.has(name)) refuse(line, `has an unknown instruction: ${JSON.stringify(written.slice(0, 40))}.`);
  const { flags, rest } = flagsOf(nameEnd === -1 ? '' : text.slice(nameEnd), name, line);
  const json = heredocInstructions.has(name) ? jsonWords(rest, name, line) : null;
  const words = json ?? (wordInstructions.has(name) ? wordsOf(rest, name, line) : []);
  return { name, line, source, flags, text: rest, words, isJson: json !== null, heredocs: [], trigger: triggerOf(name, rest, line) };
}

/** Returns the instruction that an ONBUILD holds. Builders refuse one that holds another ONBUILD; here it is refused before that is read, so that an instruction is read twice at most. */
function triggerOf(name: string, text: string, line: number): Instruction | null {
  if (name !== 'ONBUILD' || text === '') return null;
  if (/^onbuild(?![^\t\v\f\r ])/i.test(text)) refuse(line, 'has ONBUILD in an ONBUILD.');
  return instructionOf(text, line);
}

function wordsOf(text: string, name: string, line: number): string[] {
  const words = text === '' ? [] : text.split(/[\t\v\f\r ]+/);
  if (words.length > WORDS_MAX) refuse(line, `has ${name} with more than ${WORDS_MAX} words.`);
  return words;
}

/** Takes off the words at the beginning that are flags. */
function flagsOf(text: string, name: string, line: number): { flags: Flag[]; rest: string } {
  const flags: Flag[] = [];
  for (let at = 0; ;) {
    while (at < text.length && /[\t-\r ]/.test(text.charAt(at))) at += 1;
    if (!text.startsWith('--', at)) return { flags, rest: trim(text.slice(at)) };
    let end = at;
    while (end < text.length && !/[\t-\r ]/.test(text.charAt(end))) end += 1;
    const word = text.slice(at, end);
    at = end;
    if (word === '--') return { flags: [...flags, { name: '', value: null }], rest: trim(text.slice(at)) };
    const [, flag, value] = plainFlag.exec(word) ?? [];
    if (flag === undefined)
      refuse(line, `has ${name} ${printable(word)}, which is not written as --name or --name=value, without quotes and escape characters.`);
    flags.push({ name: flag, value: value ?? null });
  }
}

/** Returns the words of the JSON form; null if it is not in that form, as builders see it. */
function jsonWords(text: string, name: string, line: number): string[] | null {
  if (!text.startsWith('[')) return null;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  const words = parsed as unknown[];
  if (!words.every((word) => typeof word === 'string')) refuse(line, `has ${name} with a JSON list of something else than texts.`);
  return words;
}

interface Heredoc {
  name: string;
  /** The value is true if tabs before its end are passed over. */
  isIndented: boolean;
}

function heredocsOf(instruction: Instruction): Heredoc[] {
  const owner = instruction.trigger ?? instruction;
  if (!heredocInstructions.has(owner.name) || owner.isJson || !instruction.source.includes('<<')) return [];
  try {
    return rawWords(instruction.source)
      .map(heredocIn)
      .filter((heredoc) => heredoc !== null);
  } catch (error) {
    // Builders differ in what they make of it.
    if (error instanceof WordError) refuse(instruction.line, `has << in a text that can't be read: ${error.message}.`);
    if (error instanceof NestingError) refuse(instruction.line, 'has too many variables inside of each other.');
    throw error;
  }
}

function heredocIn(word: string): Heredoc | null {
  const [before, dash] = /^\d*<<(-?)/.exec(word) ?? [];
  if (before === undefined || word.includes('<', before.length)) return null;
  const [name, ...more] = plainWords(word.slice(before.length));
  return name === undefined || more.length > 0 ? null : { name, isIndented: dash === '-' };
}

function withoutTabs(text: string): string {
  let at = 0;
  while (text.charAt(at) === '\t') at += 1;
  return text.slice(at);
}

/** Returns the text as it can stand in a sentence. */
export const printable = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text).replaceAll(/[^\x20-\x7e…]/g, '?');
