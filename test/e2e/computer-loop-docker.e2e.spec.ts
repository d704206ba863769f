import { desktopImage, DESKTOP_IMAGE_MS } from '../support/desktop-image.ts';
import { computerLoop } from './computer-loop.contract.ts';

jest.setTimeout(DESKTOP_IMAGE_MS);

describe('a computer from its creation on, on Docker', () => {
  computerLoop('docker', async () => ({ MOORING_COMPUTER_IMAGE: await desktopImage() }));
});
