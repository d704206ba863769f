export function missingPart(program: string, folder: string): string | null;
