import fc from 'fast-check';

import { keysymNames } from './keysym-names.ts';
import { keysymOf, keysymOfCharacter, namesOfChord, pressed } from './keysyms.ts';

describe('the keysym of a name', () => {
  it.each([
    ['Return', 0xff0d],
    ['Page_Down', 0xff56],
    ['KP_0', 0xffb0],
    ['F5', 0xffc2],
    ['F35', 0xffe0],
    ['space', 0x20],
    ['plus', 0x2b],
    ['EuroSign', 0x20ac],
    ['Cyrillic_a', 0x6c1],
    ['XF86AudioMute', 0x1008ff12],
    ['Aacute', 0xc1],
    ['aacute', 0xe1],
  ])('%s is that of X', (name, keysym) => {
    expect(keysymOf(name)).toBe(keysym);
  });

  it.each([
    ['ctrl', 'Control_L'],
    ['CTRL', 'Control_L'],
    ['Control', 'Control_L'],
    ['CMD', 'Super_L'],
    ['META', 'Super_L'],
    ['WIN', 'Super_L'],
    ['OPTION', 'Alt_L'],
    ['ENTER', 'Return'],
    ['ESC', 'Escape'],
    ['ARROWLEFT', 'Left'],
    ['PAGEUP', 'Page_Up'],
    ['page_up', 'Page_Up'],
    ['BACKSPACE', 'BackSpace'],
    ['DELETE', 'Delete'],
    ['TAB', 'Tab'],
    ['SPACE', 'space'],
    ['f5', 'F5'],
    ['UP', 'Up'],
  ])('%s is that of %s', (name, xName) => {
    expect(keysymOf(name)).toBe(keysymNames.get(xName));
  });

  it.each([
    ['a', 0x61],
    ['A', 0x41],
    ['/', 0x2f],
    ['ß', 0xdf],
    ['€', 0x0100_20ac],
    ['🚀', 0x0101_f680],
    ['U20AC', 0x0100_20ac],
    ['U00e9', 0xe9],
    ['U1F680', 0x0101_f680],
  ])('%s is that of the character', (name, keysym) => {
    expect(keysymOf(name)).toBe(keysym);
  });

  it.each(['', 'nosuchkey', 'U12', 'U110000', 'UD800', '\u0007', '\ud83d', 'constructor', 'ctrl+a'])('%j is not a keysym', (name) => {
    expect(keysymOf(name)).toBeNull();
  });

  it('is found for every X name in any case, and for every printable character', () => {
    for (const [name, keysym] of keysymNames) expect([name, keysymOf(name)]).toEqual([name, keysym]);
    expect([...keysymNames.keys()].filter((name) => keysymOf(name.toUpperCase()) === null)).toEqual([]);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }), (character) => {
        fc.pre(String.fromCodePoint(character.codePointAt(0) as number) === character && !/\p{Cc}/u.test(character));
        expect(keysymOf(character)).toBe(keysymOfCharacter(character));
      }),
    );
  });
});

describe('a chord', () => {
  it.each([
    ['ctrl+shift+t', ['ctrl', 'shift', 't']],
    ['a', ['a']],
    ['+', ['+']],
    ['ctrl++', ['ctrl', '+']],
    ['ctrl+', ['ctrl', '']],
  ])('%s has the keys %j', (text, names) => {
    expect(namesOfChord(text)).toEqual(names);
  });

  it.each([
    [['ctrl', 'S'], 's'],
    [['ctrl', 'shift', 't'], 'T'],
    [['Shift_R', '1'], '!'],
    [['shift', '/'], '?'],
    [['shift', 'é'], 'É'],
    [['shift', 'ß'], 'ß'],
    [['A'], 'A'],
    [['alt', '+'], '+'],
  ])('%j sends the character of its last key: %s', (names, character) => {
    const keysyms = names.map((name) => keysymOf(name) as number);
    expect(pressed(names, keysyms).at(-1)).toBe(keysymOfCharacter(character));
  });

  it('leaves keys without a character as they are', () => {
    const keysyms = ['shift', 'Tab'].map((name) => keysymOf(name) as number);
    expect(pressed(['shift', 'Tab'], keysyms)).toEqual(keysyms);
  });
});
