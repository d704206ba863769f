import { Module } from '@nestjs/common';

import { Projections } from '../platform/projections/projections.ts';
import { ApiKeyVerifier } from './api-key.verifier.ts';
import { ApiKeysController } from './api-keys.controller.ts';
import { IssueApiKeyHandler, RevokeApiKeyHandler } from './api-keys.handlers.ts';
import { apiKeysProjection, GetApiKeyHandler, ListApiKeysHandler } from './api-keys.projection.ts';

@Module({
  controllers: [ApiKeysController],
  providers: [ApiKeyVerifier, IssueApiKeyHandler, RevokeApiKeyHandler, GetApiKeyHandler, ListApiKeysHandler],
  exports: [ApiKeyVerifier],
})
export class ApiKeysModule {
  constructor(projections: Projections) {
    projections.register(apiKeysProjection);
  }
}
