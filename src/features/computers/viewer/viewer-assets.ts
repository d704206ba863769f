import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const pageFolder = fileURLToPath(new URL('./page/', import.meta.url));
const TYPES: Record<string, string> = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css' };
const OWN_FILES = ['viewer.mjs', 'viewer.css'];

export interface Asset {
  type: string;
  bytes: Buffer;
}

/** The files of the viewer page: its own, and the modules of noVNC, about a megabyte. They are read once. */
export class ViewerAssets {
  /** Identifies these files: a different build, or a different noVNC, has a different version. */
  readonly version: string;
  private readonly files: ReadonlyMap<string, Asset>;
  private readonly html: string;

  constructor() {
    const files = new Map(OWN_FILES.map((name) => [name, assetOf(join(pageFolder, name))]));
    for (const [name, asset] of modulesOfNoVnc()) files.set(`novnc/${name}`, asset);
    const html = readFileSync(join(pageFolder, 'index.html'), 'utf8');
    const hash = createHash('sha256').update(html);
    for (const [name, { bytes }] of files) hash.update(name).update(bytes);
    this.version = hash.digest('hex').slice(0, 16);
    this.files = files;
    this.html = html.replaceAll('{version}', this.version);
  }

  /** Returns the file of this version; null if there is none. Names are keys of a map, so that no other file can be read. */
  find(version: string, name: string): Asset | null {
    return version === this.version ? (this.files.get(name) ?? null) : null;
  }

  /** Returns the page, which shows the state of its session immediately. */
  page(state: string): string {
    return this.html.replaceAll('{state}', state);
  }
}

function modulesOfNoVnc(): [string, Asset][] {
  const folder = dirname(dirname(createRequire(import.meta.url).resolve('@novnc/novnc')));
  const found = ['core', 'vendor'].flatMap((part) =>
    readdirSync(join(folder, part), { recursive: true, encoding: 'utf8' }).map((name) => join(part, name)),
  );
  const modules = found.filter((name) => name.endsWith('.js')).toSorted();
  return modules.map((name) => [name, assetOf(join(folder, name))]);
}

function assetOf(path: string): Asset {
  return { type: `${TYPES[extname(path)]}; charset=utf-8`, bytes: readFileSync(path) };
}
