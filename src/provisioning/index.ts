export { Provision, type Provisioned } from './provision.handlers.ts';
export type { ProvisionRequest } from './provision-request.ts';
export { ProvisioningModule } from './provisioning.module.ts';
