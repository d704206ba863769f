export { secretEvents } from './secrets.events.ts';
export type { SecretUsers } from './secrets.decider.ts';
export { maskOf, secretNameProblem, valueProblem } from './secret-values.rules.ts';
export { OpenSourceCredential } from './source-credentials.queries.ts';
export { CountSecretUsers, FindSecretUsers } from './secrets.queries.ts';
