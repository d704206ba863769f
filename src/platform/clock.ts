import { Injectable } from '@nestjs/common';

/** The one place that asks what time it is, so that tests can say. */
@Injectable()
export class Clock {
  now(): Date {
    return new Date();
  }
}
