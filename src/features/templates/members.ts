/** Reads the members of a JSON object one by one. Faults are collected, and each faulty value is replaced by a harmless one. */
export class Members {
  private readonly members: Record<string, unknown>;
  private readonly readNames = new Set<string>();

  constructor(
    value: unknown,
    private readonly place: string,
    private readonly problems: string[],
  ) {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (!isObject) problems.push(`${place === '' ? 'template.json' : place} must be an object`);
    this.members = isObject ? (value as Record<string, unknown>) : {};
  }

  has(name: string): boolean {
    return Object.hasOwn(this.members, name);
  }

  fault(name: string, text: string): void {
    this.problems.push(`${this.pathOf(name)} ${text}`);
  }

  text(name: string, pattern: RegExp): string {
    const value = this.readMember(name);
    if (typeof value === 'string' && pattern.test(value)) return value;
    this.fault(name, value === undefined ? 'is missing' : 'is not allowed');
    return '';
  }

  textOrNull(name: string, pattern: RegExp): string | null {
    return this.isAbsent(name) ? null : this.text(name, pattern);
  }

  integer(name: string, min: number, max: number, fallback: number): number {
    const value = this.readMember(name) ?? fallback;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    this.fault(name, `must be a whole number from ${min} to ${max}`);
    return fallback;
  }

  integerOrNull(name: string, min: number, max: number): number | null {
    return this.isAbsent(name) ? null : this.integer(name, min, max, min);
  }

  flag(name: string, fallback: boolean): boolean {
    const value = this.readMember(name) ?? fallback;
    if (typeof value === 'boolean') return value;
    this.fault(name, 'must be true or false');
    return fallback;
  }

  choice<T extends string>(name: string, options: readonly [T, ...T[]]): T {
    const value = this.readMember(name);
    const known = options.find((option) => option === value);
    if (known === undefined) this.fault(name, `must be one of ${options.join(', ')}`);
    return known ?? options[0];
  }

  object(name: string, fallback?: object): Members {
    return new Members(this.readMember(name) ?? fallback, this.pathOf(name), this.problems);
  }

  objects(name: string, max: number): Members[] {
    return this.array(name, 0, max).map((item, index) => new Members(item, `${this.pathOf(name)}[${index}]`, this.problems));
  }

  list(name: string, pattern: RegExp, max: number, min = 0): string[] {
    return this.array(name, min, max).map((item, index) => {
      if (typeof item === 'string' && pattern.test(item)) return item;
      this.fault(`${name}[${index}]`, 'is not allowed');
      return '';
    });
  }

  /** Reads a list of lists, such as commands in exec form. None of the inner ones is empty. */
  lists(name: string, pattern: RegExp, max: number): string[][] {
    return this.array(name, 0, max).map((item, index) => {
      const place = `${name}[${index}]`;
      return new Members({ [place]: item }, this.place, this.problems).list(place, pattern, max, 1);
    });
  }

  /** Reads an object whose values are texts. */
  texts(name: string, names: RegExp, maxLength: number): Record<string, string> {
    const entries = Object.entries(this.object(name, {}).members);
    for (const [key, value] of entries) {
      if (!names.test(key)) this.fault(name, `may not have the name ${JSON.stringify(key.slice(0, 100))}`);
      if (typeof value !== 'string' || value.length > maxLength || value.includes('\0'))
        this.fault(name, `must have texts only, of at most ${maxLength} characters`);
    }
    return Object.fromEntries(entries.map(([key, value]) => [key, String(value)]));
  }

  /** Reports every member that was not read. It is called after all known members were read. */
  refuseOthers(): void {
    for (const name of Object.keys(this.members)) if (!this.readNames.has(name)) this.fault(name.slice(0, 100), 'is not known');
  }

  private array(name: string, min: number, max: number): unknown[] {
    const value = this.readMember(name) ?? [];
    if (Array.isArray(value) && value.length >= min && value.length <= max) return value;
    this.fault(name, `must be a list of ${min} to ${max}`);
    return [];
  }

  private readMember(name: string): unknown {
    this.readNames.add(name);
    return this.has(name) ? this.members[name] : undefined;
  }

  private isAbsent(name: string): boolean {
    const value = this.readMember(name);
    return value === undefined || value === null;
  }

  private pathOf(name: string): string {
    return this.place === '' ? name : `${this.place}.${name}`;
  }
}
