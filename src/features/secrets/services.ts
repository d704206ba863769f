export { AccountSecrets } from './account-secrets.service.ts';
