export { Exec } from './exec.service.ts';
