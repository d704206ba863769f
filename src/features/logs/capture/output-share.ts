import { ReadShare } from '../../../kernel/limits/read-share.ts';

/** The output that is read in a second, in lines as `linesOf` counts them: of all accounts, and of one. */
const RATES = { perSecond: 4_000, perSecondOfAccount: 2_000 };
/** The number of lines that a reader gets at a time. */
const LINES_AT_A_TIME = 100;

/** Bounds how fast this process reads the output of containers. The engine keeps what they print meanwhile. */
export class OutputShare extends ReadShare {
  constructor(rates = RATES) {
    super({ ...rates, atATime: LINES_AT_A_TIME });
  }
}
