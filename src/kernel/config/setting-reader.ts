import { resolve } from 'node:path';

export type Environment = Record<string, string | undefined>;

/** Reads single variables, and collects their problems. */
export class SettingReader {
  readonly problems: string[] = [];
  private readonly readNames = new Set<string>();

  constructor(private readonly environment: Environment) {}

  /** Returns the names of our variables that are set but were never read. */
  unknown(): string[] {
    return Object.keys(this.environment).filter((name) => name.startsWith('MOORING_') && !this.readNames.has(name));
  }

  text(name: string): string | null {
    this.readNames.add(name);
    const value = this.environment[name];
    return value === undefined || value === '' ? null : value;
  }

  /** Reads a list of variables' names and returns the values of those that are set. */
  variables(name: string): Record<string, string> {
    const names = this.list(name);
    const isGood = (each: string) => /^[A-Za-z_]\w{0,127}$/.test(each) && !/^(HOME|PATH|LD_.*|MOORING_.*)$/.test(each);
    if (!names.every(isGood) || names.length > 100)
      this.problems.push(`${name} must name variables for builds, separated by commas, 100 at most, and not HOME, PATH, LD_* or MOORING_*`);
    return Object.fromEntries(names.flatMap((each) => (this.environment[each] === undefined ? [] : [[each, this.environment[each]]])));
  }

  /** Reads the path of a file or folder; a relative one begins at the working directory. */
  path(name: string): string | null {
    const value = this.text(name);
    return value === null ? null : resolve(value);
  }

  /** Reads a list that is separated by commas. */
  list(name: string): string[] {
    const values = (this.text(name) ?? '').split(',').map((value) => value.trim());
    return values.filter(Boolean);
  }

  /** Reads each part of a list of at most 100. */
  all<T>(name: string, read: (text: string) => T | null, otherwise: string): T[] {
    const values = this.list(name).map(read);
    const found = values.filter((value) => value !== null);
    if (found.length < values.length || found.length > 100) this.problems.push(`${name} ${otherwise}, separated by commas, 100 at most`);
    return found;
  }

  integer(name: string, fallback: number, min: number, max: number): number {
    const value = this.text(name);
    if (value === null) return fallback;
    if (/^\d{1,15}$/.test(value) && Number(value) >= min && Number(value) <= max) return Number(value);
    this.problems.push(`${name} must be a whole number from ${min} to ${max}`);
    return fallback;
  }

  number(name: string, fallback: number, min: number, max: number): number {
    const value = this.text(name);
    if (value === null) return fallback;
    if (/^\d+(\.\d+)?$/.test(value) && Number(value) >= min && Number(value) <= max) return Number(value);
    this.problems.push(`${name} must be a number from ${min} to ${max}`);
    return fallback;
  }

  choice<const T extends string>(name: string, options: readonly T[], fallback: T): T {
    const value = this.text(name);
    if (value === null) return fallback;
    const known = options.find((option) => option === value);
    if (known !== undefined) return known;
    this.problems.push(`${name} must be one of ${options.join(', ')}`);
    return fallback;
  }

  onOff(name: string, fallback: boolean): boolean {
    return this.choice(name, ['on', 'off', 'true', 'false'], fallback ? 'on' : 'off').match(/^(on|true)$/) !== null;
  }
}
