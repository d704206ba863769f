export { CustomFiles } from './custom-files.service.ts';
