export type { Template } from './template.ts';
export { Templates } from './templates.catalogue.ts';
export { TemplatesModule } from './templates.module.ts';
