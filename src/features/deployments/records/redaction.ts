import { withoutLast } from '../../../kernel/text/without-last.ts';

const MASK = '••••••••';
/** The shortest value that is masked, in characters. Shorter ones would mask half of every log. */
const SECRET_LENGTH_MIN = 4;
/** The most spellings that are searched for. Each costs time for every line. */
const SPELLINGS_MAX = 5_000;
const WITHHELD_LINE = 'This line is not shown, because the secrets that it may hold are too many to look for.';

/**
 * Masks known secret values, and each line of a multi-line secret, in texts: verbatim, in base64, and URL-encoded. If the secrets are
 * unknown or too many, it withholds every text.
 */
export class Redaction {
  /** All spellings by their first characters, so that lines without secrets are cheap; null if the secrets are unknown. */
  private readonly spellings: ReadonlyMap<string, string[]> | null;

  constructor(secrets: readonly string[] | null) {
    const forms = secrets === null ? null : spellingsOf(secrets);
    this.spellings = forms === null || forms.length > SPELLINGS_MAX ? null : byPrefix(forms);
  }

  redact(text: string): string {
    if (this.spellings === null) return WITHHELD_LINE;
    if (this.spellings.size === 0) return text;
    const possible = new Set<string[]>();
    for (let at = 0; at + SECRET_LENGTH_MIN <= text.length; at += 1) {
      const forms = this.spellings.get(text.slice(at, at + SECRET_LENGTH_MIN));
      if (forms !== undefined) possible.add(forms);
    }
    return [...possible]
      .flat()
      .toSorted((a, b) => b.length - a.length)
      .reduce((masked, form) => masked.replaceAll(form, MASK), text);
  }
}

function byPrefix(forms: string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const form of forms) {
    const beginning = form.slice(0, SECRET_LENGTH_MIN);
    const alike = found.get(beginning);
    if (alike === undefined) found.set(beginning, [form]);
    else alike.push(form);
  }
  return found;
}

function spellingsOf(secrets: readonly string[]): string[] {
  const parts = new Set(secrets.flatMap((secret) => [secret, ...secret.split(/\r?\n/)]).filter((part) => part.length >= SECRET_LENGTH_MIN));
  const forms = [...parts].flatMap((part) => [part, withoutLast('=', Buffer.from(part).toString('base64')), encodeURIComponent(part)]);
  return [...new Set(forms)];
}
