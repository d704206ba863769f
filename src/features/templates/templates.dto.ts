import type { Template } from './template.ts';

/** A variable that agents of the template understand. */
export class TemplateVariableDto {
  name: string;
  description: string;
  /** The value is true if the agent does not work without the variable. */
  required: boolean;
  /** The value is true if the variable should be set with `is_secret`. */
  secret: boolean;
}

export class TemplateDto {
  /** The id of the template, for `templateId`. */
  id: string;
  name: string;
  description: string;
  /** The protocol between the service and the template's agents: `mooring`, `openai`, `langgraph` or `a2a`. */
  protocol: string;
  /** The port on which its agents listen in their container. */
  port: number;
  /** The memory limit in MB; null means the installation's default. */
  memoryMb: number | null;
  variables: TemplateVariableDto[];
}

export function toTemplateDto(template: Template): TemplateDto {
  const { id, name, description, port, protocol, resources, variables } = template;
  return { id, name, description, protocol: protocol.name, port, memoryMb: resources.memoryMb, variables };
}
