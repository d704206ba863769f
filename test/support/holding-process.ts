/**
 * A process that holds a button and a key of the desktop at the socket, says so, and goes on holding them until it is killed:
 * `node holding-process.ts SOCKET`.
 */
import { once } from 'node:events';
import { connect } from 'node:net';

import { normaliseBatch } from '../../src/desktop/actions/normalise-batch.ts';
import { DesktopDriver } from '../../src/desktop/driver/desktop-driver.ts';
import { keyEvent } from '../../src/desktop/rfb/client-messages.ts';
import { encodeImage } from '../../src/desktop/screen/encode-image.ts';

const CONTROL = 0xffe3;

const driver = new DesktopDriver({
  dial: async () => {
    const socket = connect(process.argv[2] ?? '');
    await once(socket, 'connect');
    const write = socket.write.bind(socket);
    socket.write = (bytes: unknown) => {
      // The server responds once it has processed the input.
      if ((bytes as Buffer).includes(keyEvent(CONTROL, true))) socket.once('data', () => process.stdout.write('holding\n'));
      return write(bytes as Buffer);
    };
    return socket;
  },
  encode: encodeImage,
  reserve: () => Promise.resolve(() => undefined),
});

const actions = [
  { action: 'left_mouse_down', coordinate: [300, 300] },
  { action: 'hold_key', text: 'ctrl', duration: 60 },
];
await driver.run(
  {
    batchFor: async (size) => {
      const normalised = normaliseBatch({ actions }, size);
      if (!normalised.ok) throw new Error(JSON.stringify(normalised.errors));
      return normalised.batch;
    },
    reserveImage: () => true,
  },
  new AbortController().signal,
);
