import { analyse } from 'scslre';
import ts from 'typescript';

/** A regular expression in the source, with all constants put in that it is made of. */
export interface Written {
  line: number;
  source: string;
  flags: string;
}

/** Returns the regular expressions of a file: literals, and what `new RegExp` makes of the file's own texts. One whose text is not in the file has a null. */
export function regularExpressionsIn(text: string, path: string): (Written | { line: number; source: null })[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const constants = new Map<string, string>();
  const found: (Written | { line: number; source: null })[] = [];
  const visit = (node: ts.Node): void => {
    const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer !== undefined) {
      const value = textOf(node.initializer, constants);
      if (value !== null) constants.set(node.name.text, value);
    }
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/');
      found.push({ line, source: node.text.slice(1, end), flags: node.text.slice(end + 1) });
    }
    if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp') {
      const [pattern, flags] = (node.arguments ?? []).map((argument) => textOf(argument, constants));
      found.push(pattern == null || flags === null ? { line, source: null } : { line, source: pattern, flags: flags ?? '' });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Returns a text that may make the expression take time that grows by the square of its length, or worse; null if none was found. */
export function slowText({ source, flags }: Pick<Written, 'source' | 'flags'>): string | null {
  const [first] = analyse({ source, flags }, { maxReports: 1, assumeRejectingSuffix: false }).reports;
  return first === undefined ? null : `many of ${JSON.stringify(first.character.pick)}`;
}

function textOf(node: ts.Expression, constants: ReadonlyMap<string, string>): string | null {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isIdentifier(node)) return constants.get(node.text) ?? null;
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken)
    return joined([textOf(node.left, constants), textOf(node.right, constants)]);
  if (!ts.isTemplateExpression(node)) return null;
  return joined([
    node.head.text,
    ...node.templateSpans.flatMap(({ expression, literal }) => [textOf(expression, constants), literal.text]),
  ]);
}

function joined(parts: (string | null)[]): string | null {
  return parts.includes(null) ? null : parts.join('');
}
