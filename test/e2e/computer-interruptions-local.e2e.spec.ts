import { withDesktopPrograms } from '../support/desktop-programs.ts';
import { computerInterruptionsContract } from './computer-interruptions.contract.ts';

withDesktopPrograms('computers of a service that is killed or restored', () => computerInterruptionsContract('local', async () => ({})));
