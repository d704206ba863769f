import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';

import ts from 'typescript';

import { wrapped } from './markdown.ts';

const root = resolve(import.meta.dirname, '../..');
export const eventsPage = join(root, 'docs/reference/events.md');
/** The files that declare events. */
export const eventFiles = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.events.ts'))
  .toSorted()
  .map((path) => join(root, 'src', path));

/** The streams that contain the events of a file, by the file's feature or module, or a folder of it that has streams of its own. */
export const streams: Record<string, string> = {
  accounts: '`account-<id>`',
  'api-keys': '`apiKey-<id>`',
  agents: '`agent-<id>`',
  computers: '`computer-<id>`',
  'computers/viewer': '`viewer-<computer id>`',
  secrets: '`secrets-<account id>`',
  environment: '`agent-<id>`',
  'custom-files': '`agent-<id>`',
  deployments: '`deployment-<id>`',
  messages: '`conversation-<id>`',
  exec: '`exec-<agent id>`',
  commands: '`commands-<agent id>`',
  webhooks: '`webhook-<agent id>`',
  files: '`files-<agent id>`',
  logs: '`log-<agent id>`, a class of its own with retention',
  subscriptions: '`subscription-<id>`',
  eventsourcing: '`projection-<name>`',
  admin: '`masterKeyRotation-<rotation id>`',
};

/** Returns the name under which a file of events is listed: its feature or module, or a folder of it. */
export function sectionOf(file: string): string {
  const [feature = '', folder = ''] = relative(join(root, 'src'), file).replace('features/', '').split('/');
  return `${feature}/${folder}` in streams ? `${feature}/${folder}` : feature;
}

export interface DeclaredEvent {
  type: string;
  version: number;
  data: string;
}

/** Returns the events that a file declares with `defineEvent`, with their data as the source types it. */
export function declaredEvents(text: string): DeclaredEvent[] {
  const source = ts.createSourceFile('events.ts', text, ts.ScriptTarget.Latest, true);
  const found: DeclaredEvent[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAssignment(node) && ts.isCallExpression(node.initializer) && ts.isCallExpression(node.initializer.expression)) {
      const [type, , version] = node.initializer.arguments;
      const [data] = node.initializer.expression.typeArguments ?? [];
      if (type && ts.isStringLiteral(type) && data)
        found.push({ type: type.text, version: Number(version?.getText() ?? 1), data: withoutComments(data.getText()) });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function withoutComments(type: string): string {
  return type
    .replaceAll(/\/\*\*?[\s\S]*?\*\//g, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/;? }/g, ' }');
}

/** Returns the content of docs/reference/events.md, made from the sources. */
export function eventCatalogue(): string {
  const sections = eventFiles.map((file) => {
    const section = sectionOf(file);
    const events = declaredEvents(readFileSync(file, 'utf8')).map(({ type, version, data }) =>
      wrapped(`- **${type}**${version === 1 ? '' : `, version ${version}`}: \`${data}\``, '  '),
    );
    return [`## ${section}: ${streams[section] ?? 'NO STREAM SAID'}`, '', ...events, ''].join('\n');
  });
  return [
    '# Events',
    '',
    'Made from the sources by `npm run update-golden`. The title of a section names the streams that hold its events; an event whose version is not given',
    'is of version 1. Every event also says who caused it, for which account, in which request and because of which event:',
    '`actor {kind, id, name}`, `account_id`, `request_id`, `causation_id`, `ip`. A `Sealed` value is ciphertext.',
    '',
    ...sections,
  ].join('\n');
}
