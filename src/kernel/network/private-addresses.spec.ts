import { BlockList, isIPv4 } from 'node:net';

import { privateRanges4, privateRanges6 } from './private-addresses.ts';

/** Returns a list of the ranges. The families have one each, since a list with mapped IPv4 addresses holds all of IPv4. */
function listOf(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}

const [ranges4, ranges6] = [listOf(privateRanges4, 'ipv4'), listOf(privateRanges6, 'ipv6')];
const isClosed = (address: string) => (isIPv4(address) ? ranges4.check(address, 'ipv4') : ranges6.check(address, 'ipv6'));

describe('the addresses that agents may not reach', () => {
  it.each([
    ['0.0.0.0', '0.255.255.255'],
    ['10.0.0.0', '10.255.255.255'],
    ['100.64.0.0', '100.127.255.255'],
    ['127.0.0.1', '127.255.255.255'],
    ['168.63.129.16', '168.63.129.16'],
    ['169.254.0.0', '169.254.169.254'],
    ['172.16.0.0', '172.31.255.255'],
    ['192.0.0.0', '192.0.0.255'],
    ['192.168.0.0', '192.168.255.255'],
    ['198.18.0.0', '198.19.255.255'],
    ['224.0.0.1', '255.255.255.255'],
    ['::', '::1'],
    ['::ffff:10.0.0.1', '::ffff:127.0.0.1'],
    ['::ffff:168.63.129.16', '64:ff9b::a83f:8110'],
    ['64:ff9b::a00:1', '64:ff9b::a9fe:a9fe'],
    ['64:ff9b:1::', '64:ff9b:1::1'],
    ['100::1', '100::ffff'],
    ['2001::1', '2001:0:ffff::'],
    ['2002:a00:1::', '2002:ffff::'],
    ['fc00::1', 'fdff::1'],
    ['fe80::1', 'feff::1'],
    ['ff02::1', 'ffff::1'],
  ])('include %s and %s', (first, last) => {
    expect([first, last].filter((address) => !isClosed(address))).toEqual([]);
  });

  it.each([
    ['1.0.0.0', '9.255.255.255'],
    ['11.0.0.0', '100.63.255.255'],
    ['100.128.0.0', '126.255.255.255'],
    ['128.0.0.0', '168.63.129.15'],
    ['168.63.129.17', '169.253.255.255'],
    ['169.255.0.0', '172.15.255.255'],
    ['172.32.0.0', '191.255.255.255'],
    ['192.0.1.0', '192.167.255.255'],
    ['192.169.0.0', '198.17.255.255'],
    ['198.20.0.0', '223.255.255.255'],
    ['64:ff9b::808:808', '2001:4860:4860::8888'],
    ['2003::1', 'fbff::1'],
  ])('do not include %s and %s', (first, last) => {
    expect([first, last].filter(isClosed)).toEqual([]);
  });
});
