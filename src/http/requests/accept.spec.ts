import { prefers } from './accept.ts';

describe('an Accept header', () => {
  it.each([
    ['application/json', true],
    ['Application/JSON; charset=utf-8', true],
    ['application/json, text/plain, */*', true],
    ['text/event-stream, application/json', true],
    ['image/png;q=0.5, application/json;q=0.9', true],
    ['application/json;q=0.5, image/png', false],
    ['application/json;q=0.5, */*', false],
    ['application/json;q=0, image/png;q=0', false],
    ['application/json-patch+json', false],
    ['*/*', false],
    ['', false],
  ])('%j prefers JSON: %s', (accept, is) => {
    expect(prefers(accept, 'application/json')).toBe(is);
  });
});
