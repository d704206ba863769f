import { Module } from '@nestjs/common';

import { Projections } from '../../eventsourcing/projections/projections.ts';
import { ApiKeyEnds } from './api-key-ends.service.ts';
import { ApiKeysVerifier } from './api-keys.verifier.ts';
import { ApiKeysController } from './api-keys.controller.ts';
import { IssueApiKeyHandler, RevokeApiKeyHandler } from './api-keys.handlers.ts';
import { apiKeysProjection, ListApiKeysHandler, ListEndedApiKeysHandler } from './api-keys.projection.ts';
import { ApiKeysSaga } from './api-keys.saga.ts';

@Module({
  controllers: [ApiKeysController],
  providers: [
    ApiKeyEnds,
    ApiKeysVerifier,
    IssueApiKeyHandler,
    RevokeApiKeyHandler,
    ListApiKeysHandler,
    ListEndedApiKeysHandler,
    ApiKeysSaga,
  ],
  exports: [ApiKeysVerifier],
})
export class ApiKeysModule {
  constructor(projections: Projections) {
    projections.register(apiKeysProjection);
  }
}
