/** Returns the normalized form in which an address is stored and compared. */
export function normalizeEmail(email: string): string {
  return email.normalize('NFC').trim().toLowerCase();
}
