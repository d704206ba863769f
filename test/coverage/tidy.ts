import ts from 'typescript';

/** A place in a file that breaks a rule. */
export interface Finding {
  line: number;
  what: string;
}

export interface TidyRule {
  name: string;
  applies: (path: string) => boolean;
  check: (text: string, path: string) => Finding[];
}

const longestFunction = 70;
const longestFile = 400;
const mostDependencies = 5;
const mostRouteParameters = 3;

const everywhere = () => true;
const isCode = (path: string) => /\.[cm]?[jt]s$/.test(path);
const isSpec = (path: string) => /\.(spec|contract)\.ts$/.test(path);
const isProduct = (path: string) => path.startsWith('src/') && isCode(path) && !isSpec(path);

export const tidyRules: TidyRule[] = [
  { name: `no function is longer than ${longestFunction} lines`, applies: isCode, check: longFunctions },
  { name: `no file is longer than ${longestFile} lines`, applies: isCode, check: longFile },
  { name: `no constructor takes more than ${mostDependencies} parameters`, applies: isCode, check: crowdedConstructors },
  {
    name: 'no marker of unfinished work is left over',
    applies: everywhere,
    check: lines(/\b(TO[D]O|FIX[M]E|XX[X])\b/, 'leftover marker'),
  },
  {
    name: 'no test is singled out or left out',
    applies: isSpec,
    check: lines(/\b(it|test|describe\w*)(\.\w+)*\.(only|skip|todo)\b|\b(xit|xtest|xdescribe|fit|fdescribe)\(/, 'test singled or left out'),
  },
  { name: 'no test sleeps', applies: isSpec, check: sleeps },
  {
    name: 'the product waits by `pause` of kernel/async',
    applies: (path) => isProduct(path) && path !== 'src/kernel/async/pause.ts',
    check: (text, path) => inTree(text, path, (node) => (isSleepImport(node) ? 'a wait of its own' : undefined)),
  },
  {
    name: 'the product ends work after a time by `timeoutSignal` of kernel/async',
    applies: (path) => path.startsWith('src/') && !path.startsWith('src/kernel/async/timeout-signal.'),
    check: lines(/AbortSignal\.timeout\(/, 'a signal that Node 20 may forget'),
  },
  { name: 'the product writes to its log, not to the console', applies: isProduct, check: consoleCalls },
  {
    name: 'no path of one machine is named',
    applies: everywhere,
    check: lines(/(^|[^\w./-])\/(work|root)\//, 'machine path'),
  },
  {
    name: `no route takes more than ${mostRouteParameters} parameters`,
    applies: (path) => isProduct(path) && path.endsWith('.controller.ts'),
    check: crowdedRoutes,
  },
  {
    name: "the framework's requests and responses are known only in http/",
    applies: (path) => isProduct(path) && !path.startsWith('src/http/'),
    check: lines(/\bFastify(Request|Reply)\b|@(Req|Res|Request|Response)\(/, 'a request or response of the framework'),
  },
  {
    name: "an agent's stream is named only in agent-stream.ts and sandbox-id.ts",
    applies: (path) => isProduct(path) && !/\/(agent-stream|sandbox-id)\.ts$/.test(path),
    check: lines(/`agent-\$\{[\w.]+\}`|'agent-'/, "the name of an agent's stream"),
  },
  { name: 'no comment begins with the rest of a sentence', applies: isCode, check: headlessComments },
  {
    name: 'a command is declared in *.commands.ts, and a query in *.queries.ts',
    applies: isProduct,
    check: misplacedMessages,
  },
  {
    name: 'a class bears the name of its file and its role',
    applies: (path) => isProduct(path) && !path.includes('/migrations/') && !holdsMany.test(path),
    check: misnamedClass,
  },
  { name: 'private members are marked `private`', applies: (path) => path.endsWith('.ts'), check: hashNames },
  { name: 'a bound is named in capitals, with its unit', applies: isProduct, check: constantNames },
  {
    name: 'the name of a bound ends in MAX or MIN',
    applies: isProduct,
    check: lines(/^(export )?const (\w+_)?(MAX|MIN)_/, 'MAX or MIN before another word'),
  },
  {
    name: "the engine's calls on files of containers are made in engine/archive.ts alone",
    applies: (path) => isProduct(path) && path !== 'src/runtime/docker/engine/archive.ts',
    check: lines(/\b(get|put|info)Archive\b|\/archive\b(?!\.ts)/, 'a call on the files of a container'),
  },
  {
    name: 'a saga registers itself',
    applies: (path) => isProduct(path) && !path.endsWith('.saga.ts'),
    check: lines(/\bsagas\.register\(/i, 'a saga is registered'),
  },
  {
    name: 'a class of a body, a query or a response ends in Dto',
    applies: (path) => path.endsWith('.dto.ts'),
    check: lines(/^export (abstract )?class (?!\w+Dto\b)/, 'a class without Dto'),
  },
  { name: 'a method is named by the standard verb of what it does', applies: isCode, check: vagueMethods },
  { name: 'no injected member is public', applies: isProduct, check: publicInjections },
  { name: 'every file ends with a newline', applies: everywhere, check: missingNewline },
];

function lines(pattern: RegExp, what: string): TidyRule['check'] {
  return (text) => text.split('\n').flatMap((line, index) => (pattern.test(line) ? [{ line: index + 1, what }] : []));
}

/** See docs/reference/style.md. A comment that begins so has no subject, or hides it behind a riddle. */
const headless = /^(Of|What|Whatever|Where|How|Whether|Who|Whoever|Whose|Why|Which|Until|As|By|Those|(Null|True|False)( where\b|:)) /;

/** Looks at the first line of each comment that has lines of its own. */
function headlessComments(text: string): Finding[] {
  const all = text.split('\n');
  return all.flatMap((line, index) => {
    const [, mark, said = ''] = /^\s*(\/\*\*?|\/\/)\s?(.*)$/.exec(line) ?? [];
    const goesOn = mark === '//' && /^\s*\/\//.test(all[index - 1] ?? '');
    if (mark === undefined || goesOn) return [];
    const first = said === '' ? (all[index + 1] ?? '').replace(/^\s*\*\s?/, '') : said;
    return headless.test(first) ? [{ line: index + 1, what: `a comment begins with "${first.slice(0, 40)}"` }] : [];
  });
}

function longFile(text: string): Finding[] {
  const count = text.split('\n').length - 1;
  return count > longestFile ? [{ line: longestFile + 1, what: `${count} lines` }] : [];
}

function missingNewline(text: string): Finding[] {
  return text === '' || text.endsWith('\n') ? [] : [{ line: text.split('\n').length, what: 'no newline at the end' }];
}

function longFunctions(text: string, path: string): Finding[] {
  return inTree(text, path, (node, lineOf) => {
    if (!isFunctionWithBody(node) || registersTests(node) || declaresClass(node)) return undefined;
    const length = lineOf(node.end) - lineOf(node.getStart()) + 1;
    return length > longestFunction ? `a function of ${length} lines` : undefined;
  });
}

function isFunctionWithBody(node: ts.Node): boolean {
  return ts.isFunctionLike(node) && 'body' in node && node.body !== undefined;
}

/** Returns true for a function around describe() and it(), whose parts are measured instead of the whole. */
function registersTests(node: ts.Node): boolean {
  const isRegistration = (each: ts.Node) => ts.isCallExpression(each) && /^(describe\w*|it|test)\b/.test(each.expression.getText());
  return contains(node, isRegistration);
}

/** Returns true for a function around a class, whose methods are measured instead of the whole. */
function declaresClass(node: ts.Node): boolean {
  return 'body' in node && ts.isBlock(node.body as ts.Node) && (node.body as ts.Block).statements.some(ts.isClassDeclaration);
}

function crowdedConstructors(text: string, path: string): Finding[] {
  return inTree(text, path, (node) =>
    ts.isConstructorDeclaration(node) && node.parameters.length > mostDependencies
      ? `a constructor with ${node.parameters.length} parameters`
      : undefined,
  );
}

/** Finds members through which a class that injects another one would reach what was injected into that one. */
function publicInjections(text: string, path: string): Finding[] {
  return inTree(text, path, (node) => {
    if (!ts.isParameter(node) || !ts.isConstructorDeclaration(node.parent) || !ts.isParameterPropertyDeclaration(node, node.parent))
      return undefined;
    const isInjected = (ts.canHaveDecorators(node.parent.parent) ? ts.getDecorators(node.parent.parent) : undefined) !== undefined;
    const isHidden = ts.getModifiers(node)?.some(({ kind }) => hiding.has(kind)) === true;
    return isInjected && !isHidden ? `the public member ${node.name.getText()}` : undefined;
  });
}

/** Verbs of several meanings; docs/reference/style.md says which verb stands for which of them. */
const vagueVerbs = new Set(['forget', 'hand', 'hear', 'look', 'say', 'standing', 'take', 'tell']);

function vagueMethods(text: string, path: string): Finding[] {
  return inTree(text, path, (node) => {
    const isMethod = (ts.isMethodDeclaration(node) && ts.isClassLike(node.parent)) || ts.isMethodSignature(node);
    return isMethod && vagueVerbs.has(node.name.getText()) ? `the method ${node.name.getText()}` : undefined;
  });
}

const hiding = new Set([ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword]);

function crowdedRoutes(text: string, path: string): Finding[] {
  return inTree(text, path, (node) =>
    ts.isMethodDeclaration(node) && (ts.getDecorators(node) ?? []).length > 0 && node.parameters.length > mostRouteParameters
      ? `a route with ${node.parameters.length} parameters`
      : undefined,
  );
}

/** A route that imports a command or a query does not import what carries it out. */
function misplacedMessages(text: string, path: string): Finding[] {
  return lines(/\bextends (Command|Query)\b/, 'a command or a query')(text, path).filter(({ line }) => {
    const kind = text.split('\n')[line - 1]?.includes('extends Command') ? 'commands' : 'queries';
    return !path.endsWith(`.${kind}.ts`);
  });
}

/** A file of one of these roles declares several classes, or none. */
const holdsMany = /\.(commands|decider|dto|entity|errors|events|handlers|projection|queries|rules)\.ts$/;

/** Looks at files with a role, and at those that export one class and nothing else that is called. A service's class leaves the role out. */
function misnamedClass(text: string, path: string): Finding[] {
  const [stem = '', ...roles] = path
    .slice(path.lastIndexOf('/') + 1)
    .split('.')
    .slice(0, -1);
  const expected = [stem, ...roles.filter((role) => role !== 'service')].join('').replaceAll('-', '').toLowerCase();
  const exported = [...text.matchAll(/^export (?:abstract |async )*(class|function|const)\*? (\w+)( extends Error)?/gm)];
  const classes = exported.filter(([, kind, , isError]) => kind === 'class' && isError === undefined);
  const [first] = classes;
  const isMeant = roles.length > 0 || (classes.length === 1 && !exported.some(([, kind]) => kind !== 'class'));
  if (first === undefined || !isMeant || classes.some(([, , name = '']) => name.toLowerCase() === expected)) return [];
  return [{ line: text.slice(0, first.index).split('\n').length, what: `the class ${first[2] ?? ''}` }];
}

/** There is one way to make a member private, and `private` is the one that the framework's own classes use. */
function hashNames(text: string, path: string): Finding[] {
  return inTree(text, path, (node) =>
    ts.isPrivateIdentifier(node) && ts.isClassElement(node.parent) ? `the member ${node.text}` : undefined,
  );
}

/** The words that tell what a number counts or measures; a constant of a file ends in one, or tells it before `_MAX` and `_MIN`. */
const ofTime = /_(MS|SECONDS|MINUTES|HOURS|DAYS)(_MAX|_MIN)?$/;

/** Looks at the constants of a file that are numbers. A name that speaks of time has to tell the unit. */
function constantNames(text: string, path: string): Finding[] {
  return inTree(text, path, (node) => {
    if (!ts.isVariableDeclaration(node) || !ts.isIdentifier(node.name) || !ts.isSourceFile(node.parent.parent.parent)) return undefined;
    if (!isConst(node.parent) || node.initializer === undefined || !isNumber(node.initializer)) return undefined;
    const { text: name } = node.name;
    if (!/^[A-Z][A-Z0-9_]*$/.test(name)) return `the constant ${name}`;
    return /TIMEOUT|DELAY|INTERVAL|EVERY|PAUSE|GRACE|RETRY|AGAIN/.test(name) && !ofTime.test(name) ? `no unit in ${name}` : undefined;
  });
}

function isConst({ flags }: ts.Node): boolean {
  return (flags & ts.NodeFlags.Const) !== 0;
}

/** Returns true for a number, also one that is computed from numbers, or written as a bigint. */
function isNumber(node: ts.Expression): boolean {
  if (ts.isNumericLiteral(node) || ts.isBigIntLiteral(node)) return true;
  if (ts.isParenthesizedExpression(node)) return isNumber(node.expression);
  if (ts.isPrefixUnaryExpression(node)) return isNumber(node.operand);
  return ts.isBinaryExpression(node) && isNumber(node.left) && isNumber(node.right);
}

function consoleCalls(text: string, path: string): Finding[] {
  return inTree(text, path, (node) =>
    ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'console'
      ? node.getText()
      : undefined,
  );
}

function sleeps(text: string, path: string): Finding[] {
  return inTree(text, path, (node) => (isSleepImport(node) || isSleepPromise(node) ? 'a sleep' : undefined));
}

function isSleepImport(node: ts.Node): boolean {
  if (!ts.isImportSpecifier(node) || (node.propertyName ?? node.name).text !== 'setTimeout') return false;
  const { moduleSpecifier } = node.parent.parent.parent as ts.ImportDeclaration;
  return /timers\/promises/.test(moduleSpecifier.getText());
}

/** Returns true for a promise that only a timer fulfils; one that an event fulfils and a timer rejects is a timeout. */
function isSleepPromise(node: ts.Node): boolean {
  if (!ts.isNewExpression(node) || node.expression.getText() !== 'Promise') return false;
  const executor = node.arguments?.[0];
  if (!executor || !(ts.isArrowFunction(executor) || ts.isFunctionExpression(executor))) return false;
  const resolve = executor.parameters[0]?.name.getText();
  const isTimer = (each: ts.Node) => ts.isCallExpression(each) && /(^|\.)setTimeout$/.test(each.expression.getText());
  const isResolve = (each: ts.Node) => ts.isIdentifier(each) && each.text === resolve;
  return contains(executor.body, isTimer) && !containsOutside(executor.body, isResolve, isTimer);
}

function contains(node: ts.Node, matches: (each: ts.Node) => boolean): boolean {
  return ts.forEachChild(node, (child) => matches(child) || contains(child, matches)) ?? matches(node);
}

function containsOutside(node: ts.Node, matches: (each: ts.Node) => boolean, fence: (each: ts.Node) => boolean): boolean {
  if (fence(node)) return false;
  return matches(node) || (ts.forEachChild(node, (child) => containsOutside(child, matches, fence)) ?? false);
}

function inTree(text: string, path: string, judge: (node: ts.Node, lineOf: (position: number) => number) => string | undefined): Finding[] {
  const source = treeOf(text, path);
  const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line + 1;
  const findings: Finding[] = [];
  const visit = (node: ts.Node): void => {
    const what = judge(node, lineOf);
    if (what !== undefined) findings.push({ line: lineOf(node.getStart()), what });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return findings;
}

/** The tree that was made last: many rules look at one file after the other. */
let latest: ts.SourceFile | undefined;

function treeOf(text: string, path: string): ts.SourceFile {
  if (latest?.text !== text || latest.fileName !== path) latest = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  return latest;
}
