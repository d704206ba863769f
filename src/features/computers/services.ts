export { Computers } from './aggregate/computers.service.ts';
