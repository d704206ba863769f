import { Injectable } from '@nestjs/common';

/** The current time for decisions and records, so that tests can set it. */
@Injectable()
export class Clock {
  now(): Date {
    return new Date();
  }
}
