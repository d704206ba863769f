export type { Template } from './templates.ts';
export { Templates } from './templates.catalogue.ts';
