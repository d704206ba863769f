import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import ts from 'typescript';

import { wrapped } from './markdown.ts';

const root = resolve(import.meta.dirname, '../..');
export const configurationPage = join(root, 'docs/reference/configuration.md');

/** One variable of the environment, as the code that reads it says. */
export interface Setting {
  name: string;
  /** The default and the accepted values, as the page shows them. */
  values: string;
  /** The comment of the member of `Config` that holds the value; null means that it has none. */
  meaning: string | null;
  /** The subject of the function that reads it. */
  section: string;
}

interface Doc {
  meaning: string;
  /** The text of the tag `@default`, for a default that the call does not name. */
  fallback: string | undefined;
}

/** Reads all settings from the sources of `src/kernel/config`, in the order in which they are read. */
export function settings(): Setting[] {
  const docs = new Map(['config.ts', 'computer-settings.ts'].flatMap((file) => docsOf(sourceOf(file))));
  const readers = ['read-config.ts', 'read-computer-settings.ts'].map(sourceOf);
  return readers.flatMap((source) => readsOf(source).map((call) => settingOf(call, docs)));
}

function sourceOf(file: string): ts.SourceFile {
  const path = join(root, 'src/kernel/config', file);
  return ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
}

/** Returns the content of docs/reference/configuration.md. */
export function configurationText(): string {
  const all = settings();
  const sections = [...new Set(all.map(({ section }) => section))].map((section) => {
    const rows = all
      .filter((setting) => setting.section === section)
      .map(({ name, values, meaning }) => wrapped(`- **\`${name}\`** (${values}): ${meaning ?? 'NOT DESCRIBED'}`, '  '));
    return [`## ${section}`, '', ...rows, ''].join('\n');
  });
  return [
    '# Configuration',
    '',
    'Made by `npm run update-golden` from the code that reads the settings, `src/kernel/config`.',
    '',
    'Everything is read from the environment when the service starts. An unknown `MOORING_…` variable or a malformed value stops the start and is named.',
    'The default and the accepted values stand in parentheses. Lists are separated by commas. Where `NODE_ENV` is `production`, the service requires a',
    'master key of its own, refuses the local runtime, and starts no agent on an engine that does not enforce limits.',
    '',
    ...sections,
  ].join('\n');
}

/** Lists the calls that read a variable. */
function readsOf(source: ts.SourceFile): ts.CallExpression[] {
  const found: ts.CallExpression[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && /^read\.\w+$/.test(node.expression.getText()) && isName(node.arguments[0])) found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const isName = (node: ts.Expression | undefined): node is ts.StringLiteral =>
  node !== undefined && ts.isStringLiteral(node) && /^[A-Z][A-Z_]+$/.test(node.text);

/** Returns the comments of the members of the classes that hold the values. */
function docsOf(source: ts.SourceFile): [member: string, doc: Doc][] {
  const properties = source.statements.filter(ts.isClassDeclaration).flatMap(({ members }) => members.filter(ts.isPropertyDeclaration));
  return properties.flatMap((member) => {
    const meaning = ts.getJSDocCommentsAndTags(member).map((doc) => ts.getTextOfJSDocComment(doc.comment) ?? '')[0];
    const tag = ts.getJSDocTags(member).find(({ tagName }) => tagName.text === 'default');
    if (meaning === undefined || meaning === '') return [];
    return [[member.name.getText(), { meaning: flat(meaning), fallback: tag && flat(ts.getTextOfJSDocComment(tag.comment) ?? '') }]];
  });
}

const flat = (text: string) => text.replaceAll(/\s+/g, ' ').trim();

function settingOf(call: ts.CallExpression, docs: Map<string, Doc>): Setting {
  const member = memberOf(call, docs);
  const doc = docs.get(member.name);
  return {
    name: (call.arguments[0] as ts.StringLiteral).text,
    values: valuesOf(call, doc?.fallback),
    meaning: doc?.meaning ?? null,
    section: sectionOf(member.place),
  };
}

/** Returns the member of `Config` that gets the value, and where it is assigned: around the call, or around the call of its function. */
function memberOf(call: ts.Node, docs: Map<string, Doc>): { name: string; place: ts.Node } {
  for (let around = call.parent; !ts.isSourceFile(around); around = around.parent) {
    if (ts.isPropertyAssignment(around)) return { name: around.name.getText(), place: around };
    if (ts.isVariableDeclaration(around) && docs.has(around.name.getText())) return { name: around.name.getText(), place: around };
    const caller =
      ts.isFunctionDeclaration(around) && around.name !== undefined ? callerOf(around.name.text, around.getSourceFile()) : null;
    if (caller !== null) return memberOf(caller, docs);
  }
  return { name: '', place: call };
}

/** Returns the call of a function within the value of a member; null if there is none. */
function callerOf(name: string, source: ts.SourceFile): ts.Node | null {
  let found: ts.Node | null = null;
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && node.expression.getText() === name && ts.isPropertyAssignment(node.parent)) found = node;
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Returns the subject of the function around the node: the rest of the sentence that begins with "Reads the settings of". */
function sectionOf(node: ts.Node): string {
  for (let around = node; !ts.isSourceFile(around); around = around.parent) {
    const comment = ts.isFunctionDeclaration(around) ? ts.getJSDocCommentsAndTags(around)[0]?.comment : undefined;
    const subject = /^Reads (?:the settings of )?(.+?)\./.exec(flat(ts.getTextOfJSDocComment(comment) ?? ''))?.[1];
    if (subject !== undefined) return subject.charAt(0).toUpperCase() + subject.slice(1);
  }
  throw new Error(`The function that reads ${node.getText()} has no comment that begins with "Reads the settings of".`);
}

function valuesOf(call: ts.CallExpression, fallback: string | undefined): string {
  const [, ...rest] = call.arguments;
  const method = call.expression.getText().replace('read.', '');
  const shown = (node: ts.Node | undefined) => (node === undefined ? '' : (literal(node) ?? ''));
  switch (method) {
    case 'integer':
    case 'number':
      return `${fallback ?? shown(rest[0])}; ${shown(rest[1])} to ${shown(rest[2])}`;
    case 'onOff':
      return fallback ?? (rest[0]?.kind === ts.SyntaxKind.TrueKeyword ? '`on`, or `off`' : '`off`, or `on`');
    case 'choice': {
      const options = rest[0] && ts.isArrayLiteralExpression(rest[0]) ? rest[0].elements.map(shown) : [];
      const given = fallback ?? shown(rest[1]);
      return `${given}, or ${options.filter((option) => option !== given).join(', ')}`;
    }
    default: {
      const otherwise = ts.isBinaryExpression(call.parent) && call.parent.left === call ? literal(call.parent.right) : undefined;
      return fallback ?? (otherwise === undefined || otherwise === '``' ? 'none' : otherwise);
    }
  }
}

/** Returns a number as people write it, or a text as code, also by the name of a constant. The value is undefined for all else. */
function literal(node: ts.Node): string | undefined {
  if (ts.isNumericLiteral(node)) return Number(node.text) < 10_000 ? node.text : Number(node.text).toLocaleString('en-US');
  if (ts.isStringLiteral(node)) return `\`${node.text}\``;
  const constants = node
    .getSourceFile()
    .statements.filter(ts.isVariableStatement)
    .flatMap((each) => each.declarationList.declarations);
  const constant = ts.isIdentifier(node) ? constants.find(({ name }) => name.getText() === node.text)?.initializer : undefined;
  return constant === undefined ? undefined : literal(constant);
}
