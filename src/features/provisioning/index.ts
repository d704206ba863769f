export { Provision } from './provisioning.commands.ts';
