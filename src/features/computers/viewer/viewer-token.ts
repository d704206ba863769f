import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';

import type { ViewerMode } from './viewers.events.ts';

/** The facts about a session in its link. */
export interface ViewerLink {
  sessionId: string;
  computerId: string;
  mode: ViewerMode;
  /** The time at which it expires, in ms since 1970. */
  expiresAt: number;
}

/** The longest token, in characters. */
const TOKEN_CHARACTERS_MAX = 512;

/** Returns the token of a link: its facts as base64url JSON, a dot, and a MAC that proves that the installation made it. */
export function signToken({ sessionId, computerId, mode, expiresAt }: ViewerLink, key: KeyObject): string {
  const facts = { session_id: sessionId, computer_id: computerId, mode, exp: Math.floor(expiresAt / 1_000) };
  const text = Buffer.from(JSON.stringify(facts)).toString('base64url');
  return `${text}.${codeOf(text, key).toString('base64url')}`;
}

/** Returns the content of the token, even if it has expired; null if the installation did not make it. */
export function readToken(token: string, key: KeyObject): ViewerLink | null {
  if (token.length > TOKEN_CHARACTERS_MAX) return null;
  const [text = '', code = '', ...others] = token.split('.');
  const expected = codeOf(text, key);
  const given = Buffer.from(code, 'base64url');
  if (others.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
  // Base64 has several spellings of the same bytes. Only the canonical one is accepted, because the token is a part of a cookie's path.
  if (given.toString('base64url') !== code) return null;
  const facts = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<'session_id' | 'computer_id' | 'mode', string> & {
    exp: number;
  };
  return {
    sessionId: facts.session_id,
    computerId: facts.computer_id,
    mode: facts.mode as ViewerMode,
    expiresAt: facts.exp * 1_000,
  };
}

function codeOf(text: string, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
