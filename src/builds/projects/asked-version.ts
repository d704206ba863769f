import type { ProjectPlan } from '../../runtime/project-plan.ts';
import { packageJsonOf } from './package-json.ts';
import type { ProjectFiles } from './project-files.ts';

/** The files of version managers whose first line names a version, by language. */
const versionFiles: Record<ProjectPlan['language'], string[]> = {
  node: ['.nvmrc', '.node-version'],
  python: ['.python-version', 'runtime.txt'],
};
const names: Record<ProjectPlan['language'], string> = { node: 'Node', python: 'Python' };
/** A version, or a range of versions, as these files name it. */
const version = /^(?:python-|v)?([\w.*^~<>=| -]{1,60})$/;

/**
 * Returns a sentence for the build log on the version of Node or Python that the project asks for, or null. An installation has one version of each, so the
 * sentence tells why packages may not be found for it.
 */
export function askedVersion(files: ProjectFiles, language: ProjectPlan['language']): string | null {
  const lines = versionFiles[language].map((name) => ({ name, text: firstLine(files.texts.get(name) ?? '') }));
  if (language === 'node') lines.push({ name: 'package.json', text: packageJsonOf(files)?.engines['node'] ?? '' });
  for (const { name, text } of lines) {
    const [, asked] = version.exec(text) ?? [];
    if (asked !== undefined) return `The project asks for ${names[language]} ${asked} (${name}), and gets the version of this installation`;
  }
  return null;
}

function firstLine(text: string): string {
  return (
    text
      .split(/[\r\n]+/)
      .map((line) => line.trim())
      .find((line) => line !== '' && !line.startsWith('#')) ?? ''
  );
}
