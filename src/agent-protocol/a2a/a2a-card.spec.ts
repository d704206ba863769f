import { interfaceIn } from './a2a-card.ts';

const cards = (url: string) => [
  { supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }] },
  { url, protocolVersion: '0.3.0', preferredTransport: 'JSONRPC' },
];

describe('the address in an agent’s card', () => {
  it.each([
    ['http://127.0.0.1:8080/', '/'],
    ['http://127.0.0.1:8080', '/'],
    ['https://elsewhere.example/rpc?tenant=a', '/rpc?tenant=a'],
    ['/rpc', '/rpc'],
    ['https://elsewhere.example/rpc?for=/a/1234/', '/rpc?for=/a/1234/'],
    ['https://mooring.example/a/1234/', '/'],
    ['https://mooring.example/a/1234', '/'],
    ['https://mooring.example/a/1234?tenant=a', '/?tenant=a'],
    ['https://mooring.example/a/1234/rpc?tenant=a', '/rpc?tenant=a'],
    ['https://example.com/agents/a/1234/rpc', '/rpc'],
    ['https://mooring.example/a/1234/a/1234/rpc', '/a/1234/rpc'],
    ['https://mooring.example/a/12345/rpc', '/a/12345/rpc'],
    ['https://mooring.example/a/another/rpc', '/a/another/rpc'],
  ])('%s leads to %s at the agent’s own port', (url, path) => {
    for (const card of cards(url)) expect(interfaceIn(card, '/a/1234').path).toBe(path);
  });
});
