export { ApiKeyRow, ApiKeyUseRow } from './api-key.entity.ts';
export { ApiKeyVerifier } from './api-key.verifier.ts';
export { apiKeyEvents } from './api-keys.events.ts';
export { IssueApiKey } from './api-keys.handlers.ts';
