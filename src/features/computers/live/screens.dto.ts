import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsIn, IsNumber, IsOptional, Max, Min } from 'class-validator';

import { checked } from '../../agents/index.ts';
import { IntegerQuery } from '../../../http/requests/validation.ts';
import type { ImageFormat, Region } from '../../../desktop/actions/canonical-actions.ts';
import { PictureDto, toPicture } from './actions.dto.ts';
import { BooleanQuery, WakeQueryDto } from './computer-call.ts';
import type { Screenshot, ScreenshotOptions } from './computer-screens.service.ts';

/** A number without an exponent, with as many places as programs write. */
const DECIMAL = /^(\d|(?=\.\d))(\.\d{1,20})?$/;
const REGION = /^\d{1,4},\d{1,4},\d{1,4},\d{1,4}$/;

export class ScreenshotQueryDto extends WakeQueryDto {
  @IsOptional()
  @IsIn(['png', 'jpeg', 'webp'])
  @ApiProperty({ enum: ['png', 'jpeg', 'webp'], required: false })
  format?: ImageFormat;

  /** The quality of JPEG and WebP; 80 by default. */
  @IsOptional()
  @IntegerQuery(1, 100)
  quality?: number;

  /** The size of the picture, as a part of that of the screen or the region. */
  @IsOptional()
  @Transform(({ value }: { value: unknown }) => (typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value))
  @IsNumber()
  @Min(0.1)
  @Max(1)
  @ApiProperty({ type: 'number', minimum: 0.1, maximum: 1, required: false })
  scale?: number;

  /** A part of the screen in its own pixels, `x0,y0,x1,y1`: the first pixel, and the one after the last. */
  @IsOptional()
  @checked('region', regionMessage)
  @ApiProperty({ type: 'string', pattern: REGION.source, required: false })
  region?: string;

  /** The value false omits the pointer. */
  @BooleanQuery()
  cursor?: boolean;

  /** `base64` answers with JSON, as `Accept: application/json` does. */
  @IsOptional()
  @IsIn(['binary', 'base64'])
  @ApiProperty({ enum: ['binary', 'base64'], required: false })
  encoding?: 'binary' | 'base64';
}

export class ScreenSizeDto {
  width: number;
  height: number;
}

export class ScreenshotDto extends PictureDto {
  /** The size of the whole screen. */
  screen: ScreenSizeDto;

  taken_at: string;
}

export function toScreenshot({ image, screen, takenAt }: Screenshot): ScreenshotDto {
  const { format, width, height, data } = toPicture(image);
  return { format, width, height, screen, data, taken_at: takenAt.toISOString() };
}

export function screenshotOptions({ format, quality, scale, region, cursor }: ScreenshotQueryDto): ScreenshotOptions {
  return {
    format: format ?? 'png',
    quality: quality ?? 80,
    scale: scale ?? 1,
    region: region === undefined ? null : regionOf(region),
    cursor: cursor ?? true,
  };
}

function regionOf(text: string): Region {
  const [x0, y0, x1, y1] = text.split(',').map(Number) as [number, number, number, number];
  return { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
}

/**
 * Returns an error text if the region is invalid, or null. It does not check that the region is on the screen, whose size is not known
 * here.
 */
function regionMessage(text: unknown): string | null {
  if (typeof text !== 'string' || !REGION.test(text)) return 'must be x0,y0,x1,y1 in whole numbers';
  const { width, height } = regionOf(text);
  return width > 0 && height > 0 ? null : 'must be x0,y0,x1,y1 with x0 < x1 and y0 < y1';
}
