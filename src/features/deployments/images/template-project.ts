import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import { planProject } from '../../../builds/projects/plan-project.ts';
import type { BuildSettings } from '../../../runtime/project-plan.ts';
import type { ImageSource } from '../../../runtime/image-source.ts';
import type { ProjectFolder } from '../../templates/index.ts';
import type { BuildLog } from '../records/build-log.ts';

/**
 * Returns the project of a template, for an agent that listens on that port, with the start command that was said, or
 * null. Without a plan, the project is recognized by its files. Like a repository, it is refused with a message if it is not
 * recognized, or if it is a project of a framework.
 */
export async function templateProject(
  { directory, plan: own }: ProjectFolder,
  { port, start }: { port: number; start: string[] | null },
  settings: BuildSettings,
  log: BuildLog,
): Promise<ImageSource> {
  const plan = own === null ? await planProject(directory, start) : { ...own, start: start ?? own.start };
  log.line(`Found ${plan.found}`);
  for (const note of plan.notes ?? []) log.line(note);
  if (plan.framework !== null)
    throw new RepositoryRefused(`The template is ${plan.found}: its template.json has to say how it is installed, built and started.`);
  return { kind: 'project', directory, plan, settings, port };
}
