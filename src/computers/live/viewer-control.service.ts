import { Injectable } from '@nestjs/common';

type Answer = (computerId: string) => Promise<boolean>;

/** Knows whether a person controls a computer alone, by a viewer. */
@Injectable()
export class ViewerControl {
  private answer: Answer = () => Promise.resolve(false);

  /** Lets viewers answer; until they do, nobody is in control. */
  register(answer: Answer): void {
    this.answer = answer;
  }

  /** Returns whether a person is connected who controls the computer alone, so that nobody else acts on it. */
  inControl(computerId: string): Promise<boolean> {
    return this.answer(computerId);
  }
}
