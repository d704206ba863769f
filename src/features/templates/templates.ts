import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseTemplate, type Template } from './template.ts';

/** The folder is three levels above both src/features/templates and dist/features/templates. */
export const templatesFolder = fileURLToPath(new URL('../../../templates', import.meta.url));

/** The agent templates of this installation, read once. */
export class Templates {
  private constructor(private readonly byId: ReadonlyMap<string, Template>) {}

  /**
   * Reads the template.json of each folder of the installation, and of each folder of the operator's directory (`MOORING_TEMPLATES_DIR`).
   * Throws one error that lists every invalid template, and every template of the operator whose id exists already.
   */
  static read(installation: string, own: string | null = null): Templates {
    const byId = new Map<string, Template>();
    const problems: string[] = [];
    for (const folder of own === null ? [installation] : [installation, own])
      for (const id of templateIds(folder)) {
        try {
          if (byId.has(id))
            throw new Error(`template ${id}: this installation has a template of that id, so the folder needs another name`);
          byId.set(id, readTemplate(join(folder, id), id));
        } catch (error) {
          problems.push((error as Error).message);
        }
      }
    if (problems.length > 0) throw new Error(`Templates refused: ${problems.join('. ')}.`);
    return new Templates(new Map([...byId].sort(([a], [b]) => (a < b ? -1 : 1))));
  }

  get(id: string): Template | undefined {
    return this.byId.get(id);
  }

  /** Lists the templates by id. */
  list(): Template[] {
    return [...this.byId.values()];
  }
}

/** Returns the sorted names of the subfolders. Links to folders are included; names with a leading dot are not. */
function templateIds(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
    return names.filter((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.isDirectory() === true).sort();
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new Error(`Templates refused: the folder ${folder} can't be read (${code}). See MOORING_TEMPLATES_DIR.`, { cause: error });
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
