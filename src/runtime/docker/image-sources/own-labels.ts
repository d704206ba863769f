import { RuntimeRefused } from '../../runtime.errors.ts';
import { labels, type Labels } from '../engine/names.ts';

/** Throws `RuntimeRefused` for an image with labels in the service's namespace, which every container of the image would inherit. */
export function refuseOwnLabels(found: Labels | null | undefined, instance: string): void {
  const foreign = Object.entries(found ?? {}).find(
    ([name, value]) => name.startsWith('mooring.') && !(name === labels.instance && value === instance),
  );
  if (foreign !== undefined)
    throw new RuntimeRefused(
      `The image has the label ${foreign[0].slice(0, 60)}. Labels that begin with "mooring." are this service's own.`,
    );
}
