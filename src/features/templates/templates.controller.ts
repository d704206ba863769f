import { Controller, Get } from '@nestjs/common';
import { Public } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { TemplateDto, toTemplateDto } from './templates.dto.ts';
import { Templates } from './templates.ts';

@Controller('api/templates')
export class TemplatesController {
  constructor(private readonly templates: Templates) {}

  /** Lists the templates from which agents can be created. */
  @Get()
  @Operation('listTemplates')
  @Public()
  list(): TemplateDto[] {
    return this.templates.list().map(toTemplateDto);
  }
}
