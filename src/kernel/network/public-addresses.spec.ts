import { isPublic } from './public-addresses.ts';

describe('a public address', () => {
  it.each(['8.8.8.8', '203.0.114.1', '2606:4700::1111', '::ffff:8.8.8.8'])('is %s', (address) => {
    expect(isPublic(address)).toBe(true);
  });

  it.each([
    '127.0.0.1',
    '10.0.0.1',
    '169.254.169.254',
    '168.63.129.16',
    '::1',
    '::7f00:1',
    '::8.8.8.8',
    '::ffff:10.0.0.1',
    '4000::1',
    'fe00::1',
    'fe80::1',
    'fd00::1',
    '64:ff9b::a00:1',
    '2001:db8::1',
    '2002:a00:1::1',
    '3fff::1',
    '5f00::1',
  ])('is not %s', (address) => {
    expect(isPublic(address)).toBe(false);
  });
});
