import { publicUrlOf } from './public-url.ts';

const agentId = '01890000-0000-7000-8000-000000000000';

it.each([
  ['https://mooring.example.com', null, `https://mooring.example.com/a/${agentId}/`],
  ['http://127.0.0.1:8080', null, `http://127.0.0.1:8080/a/${agentId}/`],
  ['https://example.com/mooring', null, `https://example.com/mooring/a/${agentId}/`],
  ['https://mooring.example.com', 'agents.example.net', `https://${agentId}.agents.example.net/`],
  ['http://127.0.0.1:8080', 'agents.localhost', `http://${agentId}.agents.localhost:8080/`],
])('of a service at %s with the domain %s is %s', (base, domain, expected) => {
  expect(publicUrlOf(agentId, base, domain)).toBe(expected);
});
