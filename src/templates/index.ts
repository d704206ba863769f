export type { ProjectFolder, Template } from './template.ts';
export { Templates } from './templates.ts';
