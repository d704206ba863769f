import { desktopImage, DESKTOP_IMAGE_MS } from '../support/desktop-image.ts';
import { computerInterruptionsContract } from './computer-interruptions.contract.ts';

jest.setTimeout(DESKTOP_IMAGE_MS);

computerInterruptionsContract('docker', async () => ({ MOORING_COMPUTER_IMAGE: await desktopImage() }));
