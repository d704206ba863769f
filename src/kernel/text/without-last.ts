/** Returns the text without trailing occurrences of the character, in linear time: `/x+$/` would try again at each of them. */
export function withoutLast(character: string, text: string): string {
  let end = text.length;
  while (end > 0 && text.charAt(end - 1) === character) end -= 1;
  return text.slice(0, end);
}
