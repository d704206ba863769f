import type { Template } from './template.ts';

/** A variable that agents of the template understand. */
export class TemplateVariableView {
  name: string;
  description: string;
  /** Without it the agent can't do its work. */
  required: boolean;
  /** Better set with is_secret. */
  secret: boolean;
}

export class TemplateView {
  /** What `templateId` takes. */
  id: string;
  name: string;
  description: string;
  /** How the service speaks to its agents: `mooring` or `openai`. */
  protocol: string;
  /** Where its agents listen, in their container. */
  port: number;
  /** In MB; null: the installation's. */
  memoryMb: number | null;
  variables: TemplateVariableView[];
}

export function templateView(template: Template): TemplateView {
  const { id, name, description, port, protocol, resources, variables } = template;
  return { id, name, description, protocol: protocol.name, port, memoryMb: resources.memoryMb, variables };
}
