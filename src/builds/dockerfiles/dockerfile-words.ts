/** The characters that the builders take for white space (Go's `unicode.IsSpace`), which are not those of `\s`. */
const space = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const nameCharacter = /[\p{L}\p{Nd}_]/u;
const digit = /\p{Nd}/u;
const specialName = /[@*#?$!-]/;
/** The depth of `${a:-${b:-…}}`. The builders' own limit is their memory. */
const NESTING_MAX = 50;
/** The characters that variables bring into one word. */
const INSERTED_CHARACTERS_MAX = 16 * 1024;

/** The builders refuse the text as well, or it can't be read before the build. */
export class WordError extends Error {}

/** The text has more expansions inside of each other than are read here. */
export class NestingError extends Error {}

/** The words and the values in them have more characters than may be read of one file. */
export class TooLongError extends Error {}

/** The characters that may still be read. It is shared by the words of a file, and goes below zero when they are used up. */
export interface CharacterBudget {
  characters: number;
}

export interface Reading {
  /** The escape character of the Dockerfile. */
  escape: string;
  variables: ReadonlyMap<string, string>;
  budget?: CharacterBudget;
}

export interface Expanded {
  text: string;
  /** The names that have no value, which count as empty. */
  unset: ReadonlySet<string>;
}

const isSpace = (character: string): boolean => space.test(character);

export function trimStart(text: string): string {
  let at = 0;
  while (at < text.length && isSpace(text.charAt(at))) at += 1;
  return text.slice(at);
}

export function trim(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace(text.charAt(end - 1))) end -= 1;
  return trimStart(text.slice(0, end));
}

/** Removes quotes and escape characters, and puts in variables, as builders do with one argument. Throws `WordError`, `NestingError`, `TooLongError`. */
export function expand(word: string, reading: Reading): Expanded {
  consume(reading.budget, word.length);
  const lexer = new Lexer(word, { ...reading, keepsSyntax: false });
  return { text: lexer.read().text, unset: lexer.unset };
}

function consume(allowance: CharacterBudget | undefined, characters: number): void {
  if (allowance === undefined) return;
  allowance.characters -= characters;
  if (allowance.characters < 0) throw new TooLongError();
}

/** Splits a line into words that keep their quotes, escape characters and variables. Throws `WordError`, `NestingError`. */
export function rawWords(line: string): string[] {
  return new Lexer(line, { escape: '\\', variables: new Map(), keepsSyntax: true }).read().words;
}

/** Splits a text into words without quotes; variables stay. Throws `WordError`, `NestingError`. */
export function plainWords(text: string): string[] {
  return new Lexer(text, { escape: '\\', variables: new Map(), keepsSyntax: false, keepsUnset: true }).read().words;
}

/** Splits the arguments of ARG, ENV and LABEL into words, which keep their quotes, as the builders' parser does. */
export function assignmentWords(text: string, escape: string): string[] {
  const words: string[] = [];
  let word = '';
  let quote = '';
  let isWord = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (quote === '' && isSpace(character)) {
      if (isWord) words.push(word);
      word = '';
      isWord = false;
      continue;
    }
    const isEscape = character === escape && quote !== "'";
    if (isEscape && at + 1 === text.length) break;
    if (quote === '' && (character === "'" || character === '"')) quote = character;
    else if (character === quote) quote = '';
    isWord = true;
    word += character;
    if (isEscape) word += text.charAt(++at);
  }
  if (isWord) words.push(word);
  return words;
}

interface Options extends Reading {
  /** Keeps quotes, escape characters and variables. */
  keepsSyntax: boolean;
  /** Keeps variables that have no value. */
  keepsUnset?: boolean;
}

interface Read {
  text: string;
  words: string[];
}

/** Reads a text as BuildKit's lexer does (frontend/dockerfile/shell/lex.go), in one pass. */
class Lexer {
  readonly unset = new Set<string>();
  private readonly characters: string[];
  private readonly keepsUnset: boolean;
  private at = 0;
  private depth = 0;
  private inserted = 0;
  private keepsEscapes: boolean;
  /** The word that is being read. What is read inside of a variable begins it anew, as in BuildKit. */
  private word = '';

  constructor(
    text: string,
    private readonly options: Options,
  ) {
    // A byte order mark is passed over, as Go's scanner does.
    this.characters = Array.from(text.replace(/^\ufeff/, ''));
    this.keepsEscapes = options.keepsSyntax;
    this.keepsUnset = options.keepsSyntax || options.keepsUnset === true;
  }

  read(): Read {
    return this.readUntil(null, this.keepsEscapes);
  }

  /** Returns the next character; empty at the end. */
  private peek(): string {
    return this.characters[this.at] ?? '';
  }

  private next(): string {
    const character = this.peek();
    this.at += 1;
    return character;
  }

  private readUntil(stop: string | null, keepsEscapes: boolean): Read {
    if ((this.depth += 1) > NESTING_MAX) throw new NestingError();
    const outer = this.keepsEscapes;
    this.keepsEscapes = keepsEscapes;
    const words: string[] = [];
    this.word = '';
    let text = '';
    let isWord = false;
    const addPlain = (character: string) => {
      if (!isSpace(character)) {
        this.word += character;
        isWord = true;
      } else if (isWord && this.word !== '') {
        words.push(this.word);
        this.word = '';
        isWord = false;
      }
    };
    const addRaw = (part: string) => {
      this.word += part;
      isWord = true;
    };
    let isStopped = false;
    for (let character = this.peek(); character !== ''; character = this.peek()) {
      if (character === stop) {
        this.at += 1;
        isStopped = true;
        break;
      }
      if (character === '$') {
        const value = this.variable();
        text += value;
        for (const each of value) addPlain(each);
      } else if (character === "'" || character === '"' || character === '<') {
        const part = character === "'" ? this.singleQuoted() : character === '"' ? this.doubleQuoted() : this.lessThan();
        text += part;
        addRaw(part);
      } else if (character === this.options.escape) {
        this.at += 1;
        const escaped = this.next();
        const part = (keepsEscapes ? character : '') + escaped;
        text += part;
        if (part !== '') addRaw(part);
      } else {
        this.at += 1;
        text += character;
        addPlain(character);
      }
    }
    if (stop !== null && !isStopped) throw new WordError(`it has no ${stop}`);
    if (this.word !== '') words.push(this.word);
    this.word = '';
    this.keepsEscapes = outer;
    this.depth -= 1;
    return { text, words };
  }

  private singleQuoted(): string {
    const end = this.characters.indexOf("'", this.at + 1);
    if (end === -1) throw new WordError('a quote has no end');
    const text = this.characters.slice(this.at + 1, end).join('');
    this.at = end + 1;
    return this.options.keepsSyntax ? `'${text}'` : text;
  }

  private doubleQuoted(): string {
    const quote = this.options.keepsSyntax ? '"' : '';
    let text = '';
    this.at += 1;
    for (;;) {
      const character = this.peek();
      if (character === '') throw new WordError('a quote has no end');
      if (character === '"') break;
      if (character === '$') {
        text += this.variable();
        continue;
      }
      this.at += 1;
      if (character !== this.options.escape) {
        text += character;
        continue;
      }
      const escaped = this.peek();
      if (escaped === '') continue;
      const isEscaped = escaped === '"' || escaped === '$' || escaped === this.options.escape;
      if (!isEscaped || this.keepsEscapes) text += character;
      if (isEscaped) text += this.next();
    }
    this.at += 1;
    return quote + text + quote;
  }

  private lessThan(): string {
    this.at += 1;
    if (this.peek() !== '<') return '<';
    this.at += 1;
    let text = '<<';
    while (/[ \t\r]/.test(this.peek())) text += this.next();
    return text;
  }

  private variable(): string {
    this.at += 1;
    if (this.peek() !== '{') {
      const name = this.name();
      return name === '' ? '$' : this.value(name, `$${name}`);
    }
    this.at += 1;
    if (/^[{}:]?$/.test(this.peek())) throw new WordError('it has a ${ without a name');
    const name = this.name();
    const first = this.next();
    if (first === '}') return this.value(name, `\${${name}}`);
    if (first === '/') return this.replaced(name);
    const modifier = first === ':' ? this.next() : first;
    if (!/[+?#%-]/.test(modifier) || (first === ':' && '#%'.includes(modifier)))
      throw new WordError('it has a form of ${…} that builders do not know');
    const isPattern = '#%'.includes(modifier);
    const { text: word } = this.readUntil('}', isPattern || this.keepsEscapes);
    const value = this.variableValue(name);
    if (value === undefined && this.keepsUnset) return `\${${name}${first === ':' ? ':' : ''}${modifier}${word}}`;
    if (isPattern) throw new WordError('a form of ${…} that cuts a value is read only by the build itself: write the value out');
    const isGiven = value !== undefined && (first !== ':' || value !== '');
    if (modifier === '+') return isGiven ? word : '';
    if (isGiven) return value;
    if (modifier === '?') throw new WordError(`the variable ${name.slice(0, 40)} has no value`);
    return word;
  }

  private replaced(name: string): string {
    const isAll = this.peek() === '/';
    if (isAll) this.at += 1;
    const { text: pattern } = this.readUntil('/', true);
    const { text: replacement } = this.readUntil('}', true);
    if (this.keepsUnset && !this.options.variables.has(name)) return `\${${name}/${pattern}/${replacement}}`;
    throw new WordError('a form of ${…} that changes a value is read only by the build itself: write the value out');
  }

  private value(name: string, written: string): string {
    const value = this.variableValue(name);
    if (value !== undefined) return value;
    this.unset.add(name);
    return this.keepsUnset ? written : '';
  }

  private variableValue(name: string): string | undefined {
    const value = this.options.variables.get(name);
    consume(this.options.budget, value?.length ?? 0);
    this.inserted += value?.length ?? 0;
    if (this.inserted > INSERTED_CHARACTERS_MAX) throw new WordError('the values of its variables are too long');
    return value;
  }

  private name(): string {
    const first = this.peek();
    if (specialName.test(first)) return this.next();
    // A name that begins with a digit is a number.
    const part = digit.test(first) ? digit : nameCharacter;
    let name = '';
    while (part.test(this.peek())) name += this.next();
    return name;
  }
}
