/**
 * Counts how many files of the product a file pulls in: what somebody may have to read who wants to understand it, and what may break it.
 *
 * A file reaches what its imports and re-exports name, and everything that those files reach. Imports of types count, since a type is read,
 * too. A name is followed through the files that re-export it to the one that declares it: a public API counts for nothing, and what else
 * it offers is not reached. The file itself and packages do not count.
 */
import { dirname, join } from 'node:path/posix';

import ts from 'typescript';

import { type Imports, reachedFrom, type Sources } from './imports.ts';

/** A name in another file; `*` is all of the file. */
interface Name {
  path: string;
  name: string;
}

interface Parsed {
  imports: readonly Name[];
  /** Maps each name that is exported again to what it is elsewhere. */
  exportedAgain: ReadonlyMap<string, Name>;
  /** The files all of whose names are exported again. */
  allExportedAgain: readonly string[];
  declared: ReadonlySet<string>;
}

export class Reach {
  private readonly files: ReadonlyMap<string, Parsed>;
  private readonly imports: Imports;

  constructor(sources: Sources) {
    this.files = new Map([...sources].map(([path, text]) => [path, parse(path, text)]));
    this.imports = new Map([...this.files.keys()].map((path) => [path, this.importedBy(path)]));
  }

  /** Maps each file that the file reaches to the shortest chain of files that leads there. */
  from(path: string): ReadonlyMap<string, readonly string[]> {
    const chains = new Map(reachedFrom(path, this.imports));
    chains.delete(path);
    return chains;
  }

  /** Returns the files that declare what the file imports and exports again. */
  private importedBy(path: string): string[] {
    const file = this.files.get(path);
    if (!file) return [];
    const again = file.allExportedAgain.map((target) => ({ path: target, name: '*' }));
    const declaring = [...file.imports, ...file.exportedAgain.values(), ...again].map((name) => this.declaring(name) ?? name.path);
    return [...new Set(declaring)].filter((target) => this.files.has(target) && target !== path);
  }

  private declaring({ path, name }: Name): string | undefined {
    const file = this.files.get(path);
    if (!file) return undefined;
    const again = file.exportedAgain.get(name);
    if (again) return this.declaring(again);
    if (name === '*' || file.declared.has(name)) return path;
    for (const target of file.allExportedAgain) {
      const found = this.declaring({ path: target, name });
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

function parse(path: string, text: string): Parsed {
  const imports: Name[] = [];
  const exportedAgain = new Map<string, Name>();
  const allExportedAgain: string[] = [];
  const declared = new Set<string>();
  const visit = (node: ts.Node): void => {
    const target = targetOf(path, node);
    if (ts.isExportDeclaration(node)) {
      const clause = node.exportClause;
      if (clause === undefined && target !== undefined) allExportedAgain.push(target);
      if (clause && ts.isNamespaceExport(clause) && target !== undefined) exportedAgain.set(clause.name.text, { path: target, name: '*' });
      if (clause && ts.isNamedExports(clause))
        for (const { name, propertyName } of clause.elements)
          if (target === undefined) declared.add(name.text);
          else exportedAgain.set(name.text, { path: target, name: (propertyName ?? name).text });
    } else if (target !== undefined) imports.push(...namesIn(node).map((name) => ({ path: target, name })));
    else for (const name of declaredBy(node)) declared.add(name);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true));
  return { imports, exportedAgain, allExportedAgain, declared };
}

/** Returns the path of the file that the node imports or exports again; undefined for packages, and for other nodes. */
function targetOf(path: string, node: ts.Node): string | undefined {
  const specifier = specifierOf(node);
  return specifier && ts.isStringLiteral(specifier) && specifier.text.startsWith('.') ? join(dirname(path), specifier.text) : undefined;
}

function specifierOf(node: ts.Node): ts.Node | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return node.moduleSpecifier;
  if (ts.isImportTypeNode(node)) return ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined;
  return ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword ? node.arguments[0] : undefined;
}

function namesIn(node: ts.Node): string[] {
  const clause = ts.isImportDeclaration(node) ? node.importClause : undefined;
  if (!clause) return ['*'];
  const bindings = clause.namedBindings;
  const named =
    bindings && ts.isNamedImports(bindings) ? bindings.elements.map(({ name, propertyName }) => (propertyName ?? name).text) : [];
  return [...(clause.name ? ['default'] : []), ...(bindings && ts.isNamespaceImport(bindings) ? ['*'] : []), ...named];
}

/** Returns the names that the node declares, whether they are exported or not: who imports one is checked by the compiler. */
function declaredBy(node: ts.Node): string[] {
  if (ts.isVariableDeclaration(node)) return ts.isIdentifier(node.name) ? [node.name.text] : [];
  const isNamed =
    ts.isFunctionDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isEnumDeclaration(node);
  return isNamed && node.name ? [node.name.text] : [];
}
