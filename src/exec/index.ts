export { argvOf, Command, CommandShape, Folder, Variables } from './command-fields.ts';
export { execEvents } from './exec.events.ts';
