import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

const listenProgram = `
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind((sys.argv[1], 0))
link.settimeout(30)
sender = bytes.fromhex(sys.argv[2].replace(':', ''))
OUTGOING = 4
print('ready', flush=True)
while True:
    frame, place = link.recvfrom(4096)
    if place[2] == OUTGOING: continue
    name = frame.partition(b'frame:')[2].partition(b';')[0].decode('latin1')
    if name == 'end': break
    if name or frame[6:12] == sender: print(name or 'of its kernel, ' + frame[12:14].hex(), flush=True)
`;

const sendProgram = `
import socket, struct, sys
device, victim_mac, victim_ip, gateway, last = sys.argv[1:]
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((device, 0))
own, every = link.getsockname()[4], b'\\xff' * 6
mac = lambda text: bytes.fromhex(text.replace(':', ''))
ip = socket.inet_aton
victim = mac(victim_mac)

def frame(name, to, kind, body=b'', sender=own):
    mark = b'' if b'frame:' in body else b'frame:' + name.encode() + b';'
    link.send(to + sender + struct.pack('!H', kind) + (body + mark).ljust(46, b'\\0'))

def arp(question, sender_ip, target_mac, target_ip, sender=own):
    return struct.pack('!HHBBH', 1, 0x0800, 6, 4, 1 if question else 2) + sender + ip(sender_ip) + target_mac + ip(target_ip)

def ipv4(name, source, target, protocol):
    head = {17: struct.pack('!HHHH', 4000, 4000, 8 + 7 + len(name), 0), 6: struct.pack('!HHIIBBHHH', 4000, 8080, 1, 0, 0x50, 2, 1024, 0, 0)}[protocol]
    body = head + b'frame:' + name.encode() + b';'
    first = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0, ip(source), ip(target))
    total = sum(struct.unpack('!10H', first))
    total = (total & 0xffff) + (total >> 16)
    return first[:10] + struct.pack('!H', 0xffff - ((total & 0xffff) + (total >> 16))) + first[12:] + body

def ipv6(name, source, target):
    body = struct.pack('!HHHH', 4000, 4000, 8 + 7 + len(name), 1) + b'frame:' + name.encode() + b';'
    return struct.pack('!IHBB', 6 << 28, len(body), 17, 255) + socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, target) + body

mine = '.'.join(victim_ip.split('.')[:3] + ['250'])
frame('a question by ARP', every, 0x0806, arp(True, mine, bytes(6), victim_ip))
frame('a question by ARP for the host', every, 0x0806, arp(True, mine, bytes(6), gateway))
frame('an answer by ARP for the gateway', victim, 0x0806, arp(False, gateway, victim, victim_ip))
frame('an announcement by ARP of the gateway', every, 0x0806, arp(True, gateway, bytes(6), gateway))
frame('an answer by ARP of nobody', every, 0x0806, arp(False, '0.0.0.0', every, '203.0.113.9'))
frame('UDP', victim, 0x0800, ipv4('UDP', mine, victim_ip, 17))
frame('UDP of the gateway', victim, 0x0800, ipv4('UDP of the gateway', gateway, victim_ip, 17))
frame('TCP', victim, 0x0800, ipv4('TCP', mine, victim_ip, 6))
frame('UDP for all', every, 0x0800, ipv4('UDP for all', mine, '255.255.255.255', 17))
frame('UDP for a group', mac('01:00:5e:00:00:fb'), 0x0800, ipv4('UDP for a group', mine, '224.0.0.251', 17))
frame('IPv6', victim, 0x86dd, ipv6('IPv6', 'fe80::1', 'fe80::2'))
frame('IPv6 for all', mac('33:33:00:00:00:01'), 0x86dd, ipv6('IPv6 for all', 'fe80::1', 'ff02::1'))
frame('another type', victim, 0x88b5)
frame('another type for all', every, 0x88b5)
frame('another type of a false sender', victim, 0x88b5, sender=mac('02:00:00:00:00:09'))
frame('a VLAN', victim, 0x8100, struct.pack('!HH', 7, 0x0806) + arp(False, gateway, victim, victim_ip))
frame('a length', mac('01:80:c2:00:00:00'), 38, b'\\x42\\x42\\x03')
talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
talk.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
talk.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
for name, target in {'UDP of an ordinary program': victim_ip, 'UDP of an ordinary program for all': '255.255.255.255'}.items():
    try: talk.sendto(b'frame:' + name.encode() + b';', (target, 4000))
    except OSError: pass
if last == 'end': frame('end', victim, 0x88b5)
`;

/** A network namespace with a device on a link. */
export interface Station {
  /** The id of a process in the namespace. */
  pid: number;
  device: string;
  mac: string;
  ip: string;
}

/**
 * Sends frames of many kinds from one station to another, as a program there with access to raw sockets could, and returns the names of
 * those that arrive. `end` then sends one that ends the wait; by default the sender itself does.
 */
export async function arrivals(from: Station, to: Station, gateway: string, end?: () => Promise<void>): Promise<string[]> {
  const inside = ({ pid }: Station) => [`--net=/proc/${pid}/ns/net`, 'python3', '-c'];
  const listener = spawn('nsenter', [...inside(to), listenProgram, to.device, from.mac], { stdio: ['ignore', 'pipe', 'inherit'] });
  let heard = '';
  listener.stdout.setEncoding('utf8').on('data', (text: string) => (heard += text));
  const ended = once(listener, 'exit');
  try {
    await Promise.race([once(listener.stdout, 'data'), ended]);
    const last = end === undefined ? 'end' : 'more';
    execFileSync('nsenter', [...inside(from), sendProgram, from.device, to.mac, to.ip, gateway, last]);
    await end?.();
    const [code] = (await ended) as [number | null];
    if (code !== 0) throw new Error('The frame that ends the wait did not arrive.');
  } finally {
    listener.kill('SIGKILL');
  }
  return heard.trim().split('\n').slice(1);
}
