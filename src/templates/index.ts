export type { Template } from './template.ts';
export { Templates } from './templates.ts';
