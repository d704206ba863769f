export { DEFAULT_PORT, type DockerfileFolder, type ProjectFolder, type Template } from './template.ts';
export { Templates } from './templates.ts';
