export { Provision } from './provision.handlers.ts';
export { ProvisioningModule } from './provisioning.module.ts';
