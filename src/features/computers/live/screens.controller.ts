import { Controller, Get, Query } from '@nestjs/common';
import { ApiExtraModels, ApiOkResponse, getSchemaPath } from '@nestjs/swagger';

import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { computerCall } from './computer-call.ts';
import { ComputerId } from '../fields/computer-id.ts';
import { ComputerScreens } from './computer-screens.service.ts';
import { ScreenshotDto, screenshotOptions, ScreenshotQueryDto, toScreenshot } from './screens.dto.ts';

const image = { schema: { type: 'string', format: 'binary' } } as const;

@Controller('api/v1/computers/:computerId/screenshot')
export class ScreensController {
  constructor(private readonly screens: ComputerScreens) {}

  /** Takes a picture of what the computer shows. */
  @Get()
  @RequireScope('computers')
  @Operation('getComputerScreenshot')
  @ApiExtraModels(ScreenshotDto)
  @ApiOkResponse({
    content: {
      'image/png': image,
      'image/jpeg': image,
      'image/webp': image,
      'application/json': { schema: { $ref: getSchemaPath(ScreenshotDto) } },
    },
  })
  async capture(
    @ComputerId() computerId: string,
    @Query() query: ScreenshotQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ScreenshotDto | Buffer> {
    const shot = await this.screens.capture(computerCall(computerId, call), screenshotOptions(query));
    const { image: picture, screen } = shot;
    call.setHeader('cache-control', 'no-store');
    call.setHeader('x-screen-width', String(screen.width));
    call.setHeader('x-screen-height', String(screen.height));
    if (query.encoding === 'base64' || (query.encoding === undefined && call.accepts('application/json'))) return toScreenshot(shot);
    call.setHeader('content-type', `image/${picture.format}`);
    return picture.data;
  }
}
