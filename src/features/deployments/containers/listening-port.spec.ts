import fc from 'fast-check';
import { listeningOn, unreachableReason } from './listening-port.ts';

const head = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode';
const row = (local: string, state = '0A') =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  0  0 1 1 0 100 0 0 10 0`;
const all6 = '0'.repeat(32);
const loopback6 = `${'0'.repeat(24)}01000000`;

describe('the port on which a program in a container listens', () => {
  it('is found on all addresses, or on one that others can reach', () => {
    for (const local of ['00000000:1F90', `${all6}:1F90`, '0200 12AC:1F90'.replace(' ', '')])
      expect(listeningOn([head, row('0100007F:0050'), row(local)].join('\n'), 8_080)).toBe('everywhere');
    expect(listeningOn([row('0100007F:1F90'), row(`${all6}:1F90`)].join('\n'), 8_080)).toBe('everywhere');
  });

  it('is found on the loopback address alone', () => {
    for (const local of ['0100007F', '7F000001', '0200007F', loopback6, `${'0'.repeat(16)}FFFF00000100007F`])
      expect(listeningOn([head, row(`${local}:1F90`)].join('\n'), 8_080)).toBe('loopback');
  });

  it('is not found if nobody listens on it', () => {
    expect(listeningOn([head, row('00000000:1F91'), row('0100007F:1F90', '01')].join('\n'), 8_080)).toBe('nowhere');
    fc.assert(fc.property(fc.string(), (text) => fc.pre(!text.includes('0A')) ?? expect(listeningOn(text, 8_080)).toBe('nowhere')));
  });

  it('gives a reason for a failure only if a program listens on it', () => {
    expect(unreachableReason('nowhere', '172.18.0.2', 8_080)).toBeNull();
    expect(unreachableReason('loopback', '172.18.0.2', 8_080)).toContain('let it listen on 0.0.0.0');
    expect(unreachableReason('everywhere', '172.18.0.2', 8_080)).toMatch(
      /172\.18\.0\.2, is not reachable from the service.*MOORING_AGENT_ADDRESSES/,
    );
  });
});
