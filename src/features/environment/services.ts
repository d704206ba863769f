export { Variables } from './variables.service.ts';
