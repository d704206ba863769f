import { randomUUID } from 'node:crypto';
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** A next version of the built program, in which some projections have a higher version than in the source. */
export class NextVersion {
  private constructor(private readonly folder: string) {}

  static async make(projections: readonly string[]): Promise<NextVersion> {
    // The copy is beside the build, so that it finds the same packages and files.
    const folder = join(root, `dist.next-${randomUUID()}`);
    await cp(join(root, 'dist'), folder, { recursive: true });
    const raised = new Set<string>();
    for (const file of await readdir(folder, { recursive: true })) {
      // A read model's version stands with its projection, or with its table where other modules read it.
      if (!/\.(projection|table)\.js$/.test(file)) continue;
      const before = await readFile(join(folder, file), 'utf8');
      const after = before.replaceAll(/(name: '(\w+)',\s*version: )(\d+)/g, (whole, definition: string, name: string, version: string) => {
        if (!projections.includes(name)) return whole;
        raised.add(name);
        return `${definition}${Number(version) + 1}`;
      });
      if (after !== before) await writeFile(join(folder, file), after);
    }
    if (raised.size !== projections.length) throw new Error(`only ${[...raised].join(', ')} were found to be raised`);
    return new NextVersion(folder);
  }

  get entry(): string {
    return join(this.folder, 'main.js');
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
