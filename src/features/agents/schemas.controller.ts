import { Controller, Get, Header } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';

import { mooringJsonSchema } from '../../builds/run-settings/mooring-json-schema.ts';
import { Public } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';

/** Serves the schemas of the files that Mooring reads. */
@Controller('api/schemas')
export class SchemasController {
  /** Returns the JSON Schema of the file mooring.json, by which an agent's repository says how it is built, run and reached. */
  @Get('mooring.json')
  @Operation('getMooringJsonSchema')
  @Public()
  @Header('content-type', 'application/schema+json')
  @ApiResponse({ status: 200, content: { 'application/schema+json': { schema: { type: 'object' } } } })
  mooringJson(): object {
    return mooringJsonSchema;
  }
}
