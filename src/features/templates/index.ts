export type { DockerfileFolder, ProjectFolder, Template } from './template.ts';
export { Templates } from './templates.ts';
