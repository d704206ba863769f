export { argvOf, Command, CommandShape, Folder, Variables } from './command-fields.ts';
export { DEFAULT_TIMEOUT_SECONDS, EXEC_BODY_LIMIT, ExecDto, type ExecResultDto } from './exec.dto.ts';
export { execEvents } from './exec.events.ts';
