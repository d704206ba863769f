import { localUnderTest } from '../support/local-under-test.ts';
import { withDesktopPrograms } from '../support/desktop-programs.ts';
import { desktopContract } from './desktop.contract.ts';

withDesktopPrograms('a desktop on the local runtime', () => desktopContract('local', localUnderTest, false));
