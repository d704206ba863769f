import type { Builder } from '../../../kernel/config/config.ts';
import { planOf } from '../../../builds/projects/plan-project.ts';
import type { ProjectFiles } from '../../../builds/projects/project-files.ts';
import type { ProjectPlan } from '../../../runtime/project-plan.ts';
import { needsOf, type DockerfileNeeds } from '../../../builds/dockerfiles/dockerfile-bases.ts';

/** The port of agents that are built from projects. */
const PORT = 8080;

export type SourceReadRequest =
  | { kind: 'dockerfile'; text: string; builder: Builder; given: Record<string, string> }
  | { kind: 'project'; files: ProjectFiles };

export type SourceReadResult =
  | { kind: 'needs'; needs: DockerfileNeeds }
  | { kind: 'plan'; plan: ProjectPlan }
  /** A message for the owner of the files. */
  | { kind: 'refused'; by: 'RepositoryRefused' | 'RuntimeRefused'; message: string }
  /** The reader itself has failed. */
  | { kind: 'failed'; cause: string };

/** Reads the files of a tenant. Never throws: an error of the reader, such as a stack overflow, concerns these files only. */
export function readSource(question: SourceReadRequest): SourceReadResult {
  try {
    if (question.kind === 'dockerfile') return { kind: 'needs', needs: needsOf(question.text, question.builder, question.given) };
    return { kind: 'plan', plan: planOf(question.files, PORT) };
  } catch (error) {
    const { name, message } = error as Error;
    if (name === 'RepositoryRefused' || name === 'RuntimeRefused') return { kind: 'refused', by: name, message };
    return { kind: 'failed', cause: String(error) };
  }
}
