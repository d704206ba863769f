export { MessageBudgets } from './intake/message-budgets.ts';
export { MessageIntake } from './intake/message-intake.service.ts';
