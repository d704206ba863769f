import { resultOf, type ToolResponse } from './tool-results.ts';
import { SHOWN_BYTES_MAX, type Tool } from './tool.ts';

const tool: Tool = { operationId: 'getAgent', title: 'Show', effect: 'reads' };
const received = (body: string | Buffer, headers: ToolResponse['headers'], more: Partial<ToolResponse> = {}): ToolResponse => ({
  status: 200,
  headers,
  body: Buffer.from(body),
  isCut: false,
  ...more,
});
const json = { 'content-type': 'application/json; charset=utf-8' };
const textsOf = (...given: Parameters<typeof resultOf>) =>
  resultOf(...given).content.map((each) => ('text' in each ? each.text : each.mimeType));

describe('the result of a tool', () => {
  it('is the JSON of the response, with the cursor of the next page', () => {
    const headers = { ...json, link: '</api/v1/agents?limit=1&cursor=a%2Bb>; rel="next"' };
    expect(textsOf(tool, received('[{"a":1}]', headers))).toEqual(['[{"a":1}]', 'There are more: go on with cursor "a+b".']);
  });

  it('reports how many items of a list do not fit', () => {
    const items = Array.from({ length: 300 }, (_, id) => ({ id, text: 'x'.repeat(500) }));
    const [text = '', notes] = textsOf(tool, received(JSON.stringify(items), json));
    const shown = JSON.parse(text) as unknown[];
    expect(text.length).toBeLessThanOrEqual(SHOWN_BYTES_MAX);
    expect(shown).toEqual(items.slice(0, shown.length));
    expect(notes).toBe(`Only ${shown.length} of 300 items are shown, since there is no room for more: ask for fewer with limit.`);
  });

  it('of a log are its last lines', () => {
    const entries = Array.from({ length: 2_000 }, (_, at) => ({
      id: 'a',
      timestamp: 't',
      level: 'info',
      source: 'agent',
      message: `line ${at}`,
    }));
    const [text = ''] = textsOf({ ...tool, result: 'log' }, received(JSON.stringify(entries), json));
    expect(text.split('\n').at(-1)).toBe('t info agent line 1999');
    expect(textsOf({ ...tool, result: 'log' }, received('[]', json))).toEqual(['There is nothing to show.']);
  });

  it('of a tool that waits names the next one, unless the agent has settled', () => {
    const waits: Tool = { ...tool, waits: true, next: 'waitForAgent' };
    expect(textsOf(waits, received('{}', json))).toEqual(['{}', 'It is not over yet: call wait_for_agent to see how it goes on.']);
    expect(textsOf(waits, received('{}', { ...json, 'preference-applied': 'wait' }))).toEqual(['{}']);
  });

  it('of a refusal is an error with its code, its detail and when to try again', () => {
    const body = { type: 'urn:x', title: 'Busy', status: 429, code: 'rate_limited', detail: 'Too many.', request_id: 'a' };
    const headers = { 'content-type': 'application/problem+json', 'retry-after': '3' };
    expect(resultOf(tool, received(JSON.stringify(body), headers, { status: 429 }))).toEqual({
      content: [{ type: 'text', text: '{"code":"rate_limited","detail":"Too many.","request_id":"a","retry_after_seconds":3}' }],
      isError: true,
    });
    expect(resultOf(tool, received('<html>', {}, { status: 502 }))).toMatchObject({ isError: true });
  });

  it('of a file ends with a complete character, and reports where to continue', () => {
    const file: Tool = { ...tool, result: 'file' };
    const bytes = Buffer.from('aé').subarray(0, 2);
    const headers = { 'content-type': 'text/plain', 'content-range': 'bytes 4-5/9' };
    expect(textsOf(file, received(bytes, headers, { status: 206 }))).toEqual([
      'a',
      'These are the bytes 4 to 4 of 9: go on with range "bytes=5-".',
    ]);
    expect(textsOf(file, received(bytes, { 'content-type': 'text/plain' }))).toEqual(['This is no text: 2 bytes of text/plain.']);
    expect(textsOf(file, received('{"a": 1}', json))).toEqual(['{"a": 1}']);
    expect(textsOf(file, received('a\0b', { 'content-type': 'text/plain' }))).toEqual(['This is no text: 3 bytes of text/plain.']);
  });

  it('of a command’s output is always text, and the offset always advances', () => {
    const headers = (next: number) => ({ 'content-type': 'application/octet-stream', 'x-next-offset': String(next) });
    const bytes = Buffer.from('aé').subarray(0, 2);
    expect(textsOf(tool, received(bytes, headers(12)))).toEqual(['a', 'Go on with offset 11.']);
    expect(textsOf(tool, received(bytes.subarray(1), headers(12)))).toEqual(['\uFFFD', 'Go on with offset 12.']);
    expect(textsOf(tool, received('', headers(12)))).toEqual(['There is nothing to show.', 'Go on with offset 12.']);
  });

  it('is an image if the response is one', () => {
    const headers = { 'content-type': 'image/png' };
    expect(resultOf(tool, received('x', headers))).toEqual({ content: [{ type: 'image', data: 'eA==', mimeType: 'image/png' }] });
    expect(resultOf(tool, received('x', headers, { isCut: true }))).toMatchObject({ isError: true });
    expect(textsOf(tool, received(Buffer.from([0x89, 0x50]), { ...headers, 'content-range': 'bytes 0-1/9' }, { status: 206 }))).toEqual([
      'This is no text: 9 bytes of image/png.',
    ]);
    expect(textsOf(tool, received('<svg/>', { 'content-type': 'image/svg+xml' }))).toEqual(['<svg/>']);
  });
});
