export { ApiKeysVerifier } from './api-keys.verifier.ts';
export { apiKeysProjection } from './api-keys.projection.ts';
export { apiKeyEvents } from './api-keys.events.ts';
export { IssueApiKey, RevokeApiKey } from './api-keys.commands.ts';
