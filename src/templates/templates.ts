import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseTemplate, type Template } from './template.ts';

/** The folder is two levels above both src/templates and dist/templates. */
export const templatesFolder = fileURLToPath(new URL('../../templates', import.meta.url));

/** The agent templates of this installation, read once. */
export class Templates {
  private constructor(private readonly byId: ReadonlyMap<string, Template>) {}

  /** Reads each folder's template.json. Throws one error that names every bad template. */
  static read(folder: string): Templates {
    const byId = new Map<string, Template>();
    const problems: string[] = [];
    for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!entry.isDirectory() || entry.name.startsWith('.')) continue;
      try {
        byId.set(entry.name, readTemplate(join(folder, entry.name), entry.name));
      } catch (error) {
        problems.push((error as Error).message);
      }
    }
    if (problems.length > 0) throw new Error(`Templates refused: ${problems.join('. ')}.`);
    return new Templates(byId);
  }

  get(id: string): Template | undefined {
    return this.byId.get(id);
  }

  /** Lists the templates by id. */
  list(): Template[] {
    return [...this.byId.values()];
  }
}

function readTemplate(directory: string, id: string): Template {
  const file = join(directory, 'template.json');
  if (!existsSync(file)) throw new Error(`template ${id}: there is no template.json`);
  const template = parseTemplate(readFileSync(file, 'utf8'), id, directory);
  const { source } = template;
  if (source.kind === 'dockerfile' && !existsSync(join(directory, source.dockerfile)))
    throw new Error(`template ${id}: there is no ${source.dockerfile}`);
  return template;
}
