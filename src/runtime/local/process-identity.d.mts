export function whoIs(pid: number): { identity: string; stopped: boolean } | null;
