import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const file = new URL('../../../../deploy/computer/seccomp.json', import.meta.url);
const PREFIX = 'seccomp=';

let read: Promise<string> | null = null;

/** Returns the profile of containers that may create user namespaces, as one line. */
export function userNamespacesProfile(): Promise<string> {
  read ??= readFile(fileURLToPath(file), 'utf8').then(oneSpelling, (error: unknown) => {
    read = null;
    throw error;
  });
  return read;
}

/**
 * Returns the profile among the security options in one spelling, since an engine may write it differently; the empty string stands for the
 * engine's default.
 */
export function profileIn(options: readonly string[] | null | undefined): string {
  const profile = (options ?? []).find((option) => option.startsWith(PREFIX)) ?? '';
  return oneSpelling(profile.slice(PREFIX.length));
}

function oneSpelling(profile: string): string {
  try {
    return JSON.stringify(JSON.parse(profile));
  } catch {
    return profile;
  }
}
