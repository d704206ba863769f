import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { span, until } from '../../../test/support/until.ts';
import { timeoutSignal } from './timeout-signal.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

describe('a signal that aborts after a time', () => {
  it('has a TimeoutError as its reason', async () => {
    const signal = timeoutSignal(1);
    await until('it aborts', () => (signal.aborted ? true : undefined));
    expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
  });

  it('aborts signals that depend on it and on others, although nothing references it and garbage is collected meanwhile', async () => {
    const either = AbortSignal.any([new AbortController().signal, timeoutSignal(200)]);
    for (let count = 0; count < 5; count += 1) {
      collectGarbage();
      await span(1);
    }
    await until('it aborts', () => (either.aborted ? true : undefined));
  });
});
