import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';

/** The most names that the summary of an event lists. */
const NAMED_MAX = 10;

/** The events of an agent's custom files, which are on the agent's own stream. The contents are in no event. */
export const customFileEvents = {
  CustomFilesStored: defineEvent<{
    files: {
      path: string;
      target_dir: string;
      /** The size of the content in bytes of UTF-8. */
      size: number;
      executable: boolean;
      run_on_deploy: boolean;
      /** The id of the sealed content, which is kept outside the log. */
      content_id: string;
    }[];
    stored_at: string;
  }>()('CustomFilesStored', ({ files }) => {
    const named = files.slice(0, NAMED_MAX).map(({ target_dir, path, size }) => `${target_dir}/${path} (${size} bytes)`);
    const others = files.length > NAMED_MAX ? ` and ${files.length - NAMED_MAX} more` : '';
    return `Stored the custom files ${named.join(', ')}${others}`;
  }),
  CustomFileRemoved: defineEvent<{ path: string; target_dir: string }>()(
    'CustomFileRemoved',
    ({ target_dir, path }) => `Removed the custom file ${target_dir}/${path}`,
  ),
};

export type CustomFileEvent = EventsOf<typeof customFileEvents>;
