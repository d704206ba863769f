export { Provision } from './provision.commands.ts';
