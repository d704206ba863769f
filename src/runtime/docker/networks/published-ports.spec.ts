import { hasSamePorts, loopbackPorts, portBindings } from './published-ports.ts';

const loopback = portBindings(8080, loopbackPorts);

describe('the published port of a container', () => {
  it('is as requested if the engine reports the same', () => {
    expect(hasSamePorts(structuredClone(loopback), loopback)).toBe(true);
    expect(hasSamePorts({}, undefined)).toBe(true);
    expect(hasSamePorts(null, {})).toBe(true);
  });

  it('is another one at another address, for another port, or if there is none', () => {
    for (const other of [portBindings(8080, { address: '192.0.2.7', ports: '' }), portBindings(80, loopbackPorts), {}, null])
      expect([hasSamePorts(other, loopback), hasSamePorts(loopback, other)]).toEqual([false, false]);
  });
});
