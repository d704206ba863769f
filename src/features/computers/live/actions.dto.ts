import { ApiProperty } from '@nestjs/swagger';

import type { Point } from '../../../desktop/actions/canonical-actions.ts';
import type { BatchOutcome, StepResult } from '../../../desktop/driver/batch-runner.ts';
import type { EncodedImage } from '../../../desktop/screen/encode-image.ts';

export class PictureDto {
  @ApiProperty({ enum: ['png', 'jpeg', 'webp'] })
  format: EncodedImage['format'];

  width: number;
  height: number;

  /** The bytes in base64. */
  data: string;
}

export class ActionFailureDto {
  code: string;
  message: string;
}

export class PointDto {
  x: number;
  y: number;
}

export class ActionResultDto {
  /** The place of the action in the batch. */
  index: number;

  /** The name by which it was asked for. */
  action: string;

  ok: boolean;

  /** The place of the pointer, for `cursor_position`. */
  x?: number;
  y?: number;

  screenshot?: PictureDto;
  error?: ActionFailureDto;
}

export class ActionsResultDto {
  computer_id: string;

  @ApiProperty({ enum: ['awake'] })
  status: 'awake';

  /** False if an action failed, which ended the batch, or the picture at the end did. */
  ok: boolean;

  /** The number of actions that were done. */
  completed: number;

  /** One for each action that was begun. */
  results: ActionResultDto[];

  cursor: PointDto;

  /** The picture at the end, if one was asked for. */
  screenshot?: PictureDto;

  /** The reason why there is no picture at the end. */
  screenshot_error?: ActionFailureDto;

  duration_ms: number;
}

export function toActionsResult(computerId: string, outcome: BatchOutcome): ActionsResultDto {
  const { ok, completed, results, cursor, screenshot, screenshotError, durationMs } = outcome;
  return {
    computer_id: computerId,
    status: 'awake',
    ok,
    completed,
    results: results.map(toResult),
    cursor: cursor satisfies Point,
    ...(screenshot && { screenshot: toPicture(screenshot) }),
    ...(screenshotError && { screenshot_error: screenshotError }),
    duration_ms: durationMs,
  };
}

export function toPicture({ format, width, height, data }: EncodedImage): PictureDto {
  return { format, width, height, data: data.toString('base64') };
}

function toResult({ screenshot, ...result }: StepResult): ActionResultDto {
  return { ...result, ...(screenshot && { screenshot: toPicture(screenshot) }) };
}
