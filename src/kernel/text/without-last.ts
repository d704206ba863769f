/** Returns the text without the characters at its end that are this one, in time that is linear in its length: `/x+$/` tries again at each of them. */
export function withoutLast(character: string, text: string): string {
  let end = text.length;
  while (end > 0 && text.charAt(end - 1) === character) end -= 1;
  return text.slice(0, end);
}
