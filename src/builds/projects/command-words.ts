import { fixedVariables } from '../../runtime/project-plan.ts';

const shell = /^(.*\/)?(sh|bash|ash|dash|ksh|zsh)$/;
/** Words that only a shell understands at the beginning of a command. */
const shellWords = new Set(
  '! . : [ [[ alias break case cd command continue eval exit export for function if local read readonly return set shift source time trap type ulimit umask unset until wait while { }'.split(
    ' ',
  ),
);
/** Characters outside of quotes that a shell does not take as they stand. */
const special = /[|&;<>()$`\\*?[\]]/;
const assignment = /^([A-Za-z_]\w*)=(.*)$/s;

export interface Command {
  words: string[];
  /** The variables that are set in front of the command. */
  env: Record<string, string>;
  /** The variables without a known value that have the default that the line gives them. */
  assumed?: string[];
}

/** `$NAME`, `${NAME}` and `${NAME:-a plain word}`, with the other operators of that form. */
const variable = /\$(?:\{(\w+)(?:(:?[-=?+])([\w./:@%,+-]*))?\}|(\w+))?/g;

interface Variables {
  values: Record<string, string>;
  /** Null if only variables with known values may occur. */
  assumed: Set<string> | null;
}

/**
 * Splits a command line into the words that a shell would start the program with. Returns null if that takes a shell, as pipes, variables
 * and patterns do. `values` are the variables whose values are known; others may occur only with a default, and if `takesDefaults` is given.
 */
export function commandOf(line: string, values: Record<string, string> = {}, takesDefaults = false): Command | null {
  const variables: Variables = { values, assumed: takesDefaults ? new Set() : null };
  const found = wordsOf(line.trim(), variables);
  if (found === null) return null;
  const env: Record<string, string> = {};
  let at = 0;
  for (; at < found.length; at += 1) {
    const [, name, value] = (found[at]?.quotedFirst === false && assignment.exec(found[at]?.text ?? '')) || [];
    if (name === undefined || value === undefined) break;
    if (fixedVariables.has(name)) return null;
    env[name] = value;
  }
  if (found[at]?.text === 'exec') at += 1;
  const words = found.slice(at).map(({ text }) => text);
  const [program] = words;
  if (program === undefined || program === '' || program.startsWith('-') || shellWords.has(program)) return null;
  if (shell.test(program) && words.some((word) => /^-[a-z]*c$/.test(word))) return null;
  const assumed = [...(variables.assumed ?? [])];
  return { words, env, ...(assumed.length === 0 ? {} : { assumed }) };
}

interface Word {
  text: string;
  /** Tells that the word begins with a quote, so that it sets no variable. */
  quotedFirst: boolean;
}

function wordsOf(line: string, variables: Variables): Word[] | null {
  // A start command becomes a line of a Dockerfile.
  if (/\p{Cc}/u.test(line.replaceAll('\t', ' '))) return null;
  const words: Word[] = [];
  let word: Word | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] ?? '';
    if (char === ' ' || char === '\t') {
      if (word !== null) words.push(word);
      word = null;
      continue;
    }
    if (word === null && (char === '#' || char === '~')) return null;
    word ??= { text: '', quotedFirst: char === '"' || char === "'" };
    if (char === '$') {
      variable.lastIndex = at;
      const found = variable.exec(line);
      const value = found === null ? null : valueOf(variables, found);
      if (found === null || value === null) return null;
      word.text += value;
      at += found[0].length - 1;
    } else if (char === "'" || char === '"') {
      const end = line.indexOf(char, at + 1);
      const quoted = end === -1 ? null : inQuotes(line.slice(at + 1, end), char, variables);
      if (quoted === null) return null;
      word.text += quoted;
      at = end;
    } else if (special.test(char)) return null;
    else word.text += char;
  }
  if (word !== null) words.push(word);
  return words;
}

function inQuotes(text: string, quote: string, variables: Variables): string | null {
  if (quote === "'") return text;
  if (/[\\`]/.test(text)) return null;
  let isKnown = true;
  const replaced = text.replaceAll(variable, (...found: string[]) => {
    const value = valueOf(variables, found);
    isKnown &&= value !== null;
    return value ?? '';
  });
  return isKnown ? replaced : null;
}

/** Returns what a shell would put in the variable's place; null if that is not known. */
function valueOf({ values, assumed }: Variables, [, braced, operator = '', word = '', bare]: (string | undefined)[]): string | null {
  const name = braced ?? bare;
  if (name === undefined) return null;
  const value = Object.hasOwn(values, name) ? values[name] : undefined;
  if (value !== undefined) return operator.endsWith('+') ? word : value;
  if (assumed === null || !/[-=]$/.test(operator)) return null;
  assumed.add(name);
  return word;
}
