import { eventDefinitions } from '../app.module.ts';
import { checkedBackup, restore, runTool, UsageError } from '../operations/index.ts';
import { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';
import { computerIdOf, kindOf } from '../sandboxes/index.ts';

const usage = `usage: npm run restore -- <file> [--keys <file>] [--shredded <file>]… [--replace] [--as-copy]
       npm run restore -- --check <file>`;

const options = {
  keys: { type: 'string' },
  shredded: { type: 'string', multiple: true },
  replace: { type: 'boolean' },
  'as-copy': { type: 'boolean' },
  check: { type: 'boolean' },
} as const;

/** Returns what an operator calls the agent or the computer. */
function nameOf(sandboxId: string): string {
  return kindOf(sandboxId) === 'agent' ? `Agent ${sandboxId}` : `Computer ${computerIdOf(sandboxId)}`;
}

await runTool(usage, options, async ({ config, words, values, print: say }) => {
  const [from] = words;
  if (from === undefined || words.length > 1) throw new UsageError('name the file to restore');
  if (values.check === true) {
    const { manifest } = await checkedBackup(from);
    return say(`${from} is whole: as of ${manifest.at}, log up to ${manifest.heads.core}, keys ${manifest.keys}`);
  }
  const { manifest, shredded, deletedAgain } = await restore(config, new EventCatalogue(eventDefinitions), {
    from,
    keys: (values.keys as string | undefined) ?? null,
    shredded: (values.shredded as string[] | undefined) ?? [],
    replace: values.replace === true,
    asCopy: values['as-copy'] === true,
  });
  say(
    `Restored as of ${manifest.at}: ${manifest.tables.es_event?.rows ?? 0} events and ${manifest.tables.es_log_event?.rows ?? 0} of output.`,
  );
  say(`${shredded} subjects stay shredded.`);
  for (const sandboxId of deletedAgain) say(`${nameOf(sandboxId)} had been deleted since: its deletion is asked for again.`);
  say('Read models are made from the log at the next start.');
});
