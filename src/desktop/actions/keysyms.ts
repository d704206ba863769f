import { keysymNames } from './keysym-names.ts';

/** The most keys of a chord. */
export const CHORD_KEYS_MAX = 5;
const UNICODE_KEYSYMS = 0x0100_0000;
const CODE_POINT_MAX = 0x10_ffff;

/** Further names that xdotool and the vendors' models use, in lower case. */
const aliases: ReadonlyMap<string, string> = new Map(
  Object.entries({
    alt: 'Alt_L',
    option: 'Alt_L',
    altgr: 'ISO_Level3_Shift',
    ctrl: 'Control_L',
    control: 'Control_L',
    shift: 'Shift_L',
    meta: 'Super_L',
    super: 'Super_L',
    cmd: 'Super_L',
    command: 'Super_L',
    win: 'Super_L',
    windows: 'Super_L',
    enter: 'Return',
    esc: 'Escape',
    del: 'Delete',
    ins: 'Insert',
    backspace: 'BackSpace',
    spacebar: 'space',
    pageup: 'Page_Up',
    pgup: 'Page_Up',
    pagedown: 'Page_Down',
    pgdn: 'Page_Down',
    arrowleft: 'Left',
    arrowright: 'Right',
    arrowup: 'Up',
    arrowdown: 'Down',
    capslock: 'Caps_Lock',
    numlock: 'Num_Lock',
    scrolllock: 'Scroll_Lock',
    printscreen: 'Print',
    prtsc: 'Print',
    contextmenu: 'Menu',
    apps: 'Menu',
  }),
);

/**
 * The names in lower case. Of two names that differ only in case, such as `Aacute` and `aacute`, it is the lower-case letter, which comes
 * last.
 */
const lowerCaseNames: ReadonlyMap<string, number> = new Map([...keysymNames].map(([name, keysym]) => [name.toLowerCase(), keysym]));

const shifts: readonly number[] = ['Shift_L', 'Shift_R'].map((name) => keysymNames.get(name) as number);
/** The characters on the keys of the desktop's US keyboard, without and with shift. */
const PLAIN = "`1234567890-=[]\\;',./";
const SHIFTED = '~!@#$%^&*()_+{}|:"<>?';

/** Returns the keysym of a character. */
export function keysymOfCharacter(character: string): number {
  const codePoint = character.codePointAt(0) as number;
  const isLatin1 = (codePoint >= 0x20 && codePoint <= 0x7e) || (codePoint >= 0xa0 && codePoint <= 0xff);
  return isLatin1 ? codePoint : UNICODE_KEYSYMS + codePoint;
}

/** Returns the keysym of a name, of a single character, or of a code point such as `U20AC`; null if there is none. */
export function keysymOf(name: string): number | null {
  const exact = keysymNames.get(name);
  if (exact !== undefined) return exact;
  if (isOneCharacter(name)) return isPrintable(name) ? keysymOfCharacter(name) : null;
  const lowerCase = name.toLowerCase();
  const alias = aliases.get(lowerCase);
  if (alias !== undefined) return keysymNames.get(alias) as number;
  const [, hexadecimal] = /^[uU]\+?([0-9a-fA-F]{4,6})$/.exec(name) ?? [];
  if (hexadecimal !== undefined) return keysymOfCodePoint(Number.parseInt(hexadecimal, 16));
  return lowerCaseNames.get(lowerCase) ?? null;
}

/** Returns the names in a chord such as `ctrl+shift+t`. The plus at the end of `ctrl++` is a key. */
export function namesOfChord(text: string): string[] {
  if (text === '+') return ['+'];
  const names = text.endsWith('++') ? [...text.slice(0, -2).split('+'), '+'] : text.split('+');
  return names;
}

/**
 * Returns the keysyms that a keyboard sends for the keys of a chord. Together with other keys, a letter means its key, so `CTRL+S` is
 * without shift; with shift, a key gives its shifted character.
 */
export function pressed(names: readonly string[], keysyms: readonly number[]): number[] {
  if (keysyms.length < 2) return [...keysyms];
  const hasShift = keysyms.some((keysym) => shifts.includes(keysym));
  return keysyms.map((keysym, index) => {
    const name = names[index] ?? '';
    if (name.length !== 1) return keysym;
    const key = name.toLowerCase();
    if (!hasShift) return keysymOfCharacter(key);
    const at = PLAIN.indexOf(key);
    return keysymOfCharacter(at < 0 ? upperCaseOf(key) : (SHIFTED[at] as string));
  });
}

function upperCaseOf(letter: string): string {
  const upper = letter.toUpperCase();
  return upper.length === 1 ? upper : letter;
}

function isOneCharacter(text: string): boolean {
  const codePoint = text.codePointAt(0);
  return codePoint !== undefined && String.fromCodePoint(codePoint) === text;
}

function isPrintable(character: string): boolean {
  return character.isWellFormed() && !/\p{Cc}/u.test(character);
}

function keysymOfCodePoint(codePoint: number): number | null {
  if (codePoint > CODE_POINT_MAX) return null;
  const character = String.fromCodePoint(codePoint);
  return isPrintable(character) ? keysymOfCharacter(character) : null;
}
