import { withDesktopPrograms } from '../support/desktop-programs.ts';
import { computerLoop } from './computer-loop.contract.ts';

withDesktopPrograms('a computer from its creation on', () => {
  describe('a computer from its creation on, on the local runtime', () => {
    computerLoop('local', () => Promise.resolve({}));
  });
});
