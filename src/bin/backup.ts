import { backUp, runTool, UsageError } from '../operations/index.ts';

const usage = `usage: npm run backup -- <file or folder> [--keys-apart <file or folder> | --without-keys | --keys-only]`;

const options = {
  'keys-apart': { type: 'string' },
  'without-keys': { type: 'boolean' },
  'keys-only': { type: 'boolean' },
} as const;

await runTool(usage, options, async ({ config, words, values, print: say }) => {
  const [to] = words;
  if (to === undefined || words.length > 1) throw new UsageError('name the file or folder of the backup');
  if (Object.keys(values).length > 1) throw new UsageError('give only one of the options for the keys');
  const apart = values['keys-apart'] as string | undefined;
  const keys = apart !== undefined ? { apart } : values['without-keys'] ? 'none' : values['keys-only'] ? 'only' : 'included';
  for (const { file, manifest } of await backUp(config, { to, keys })) {
    const rows = Object.values(manifest.tables).reduce((sum, table) => sum + table.rows, 0);
    say(`${file}: ${rows} rows as of ${manifest.at}, log up to ${manifest.heads.core}, keys ${manifest.keys}`);
  }
  if (keys !== 'none') say('The master key is in no backup: keep it elsewhere, and keep it.');
  say("Agents' volumes are not in it.");
  if (config.eventStore === 'eventstoredb')
    say('The log is in EventStoreDB and is not in it: docs/guides/backup.md says in which order to back both up.');
});
