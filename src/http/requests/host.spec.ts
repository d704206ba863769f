import { hostFault } from './host.ts';

const fault = (host: string, target = '/') => hostFault({ rawHeaders: ['Host', host], httpVersion: '1.1', target });

describe('the host of a request', () => {
  it.each([
    'service',
    'mooring.example.com',
    'Mooring.Example.COM:8080',
    'x.agents.test.',
    'x.agents.test.:443',
    'my_service:80',
    '127.0.0.1',
    '[::1]:8080',
    '',
  ])('may be a name or an address with a port: %s', (host) => {
    expect(fault(host)).toBeNull();
  });

  it.each([
    'x.agents.test..',
    'x.agents.test:80a',
    'x.agents.test:80.',
    'x.agents.test:99999',
    'x.agents.test, y',
    'x.agents.test/y',
    'u@x.agents.test',
    '.x',
    '[::1',
    '[::::]',
    '999.999.999.999',
    'x.agents.test:80:80',
    'x\tagents.test',
  ])('may be nothing else: %s', (host) => {
    expect(fault(host)).toBe('The Host header is no name with a port.');
  });

  it('is that of the target, if that names one', () => {
    expect(fault('service:80', 'http://Service:80/api/agents')).toBeNull();
    for (const target of ['http://x.agents.test/api', 'HTTPS://x.agents.test', 'http://service@x/', 'http:///api'])
      expect(fault('service', target)).toBe('The address and the Host header name different hosts.');
    expect(fault('service', '/a?x=http://other/')).toBeNull();
  });

  it('is exactly one, which only HTTP/1.0 may omit', () => {
    const of = (rawHeaders: string[], httpVersion = '1.1') => hostFault({ rawHeaders, httpVersion, target: '/' });
    expect(of(['Host', 'a', 'x', 'host', 'HOST', 'a'])).toBe('There is more than one Host header.');
    expect([of(['x', 'host']), of([], '1.0')]).toEqual(['The Host header is missing.', null]);
  });
});
