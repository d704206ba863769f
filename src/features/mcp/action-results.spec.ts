import { actionsResult } from './action-results.ts';
import { SHOWN_BYTES_MAX } from './tool.ts';

const received = (answer: object, isCut = false) => ({ status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)), isCut });
const picture = (data: string, format = 'png') => ({ format, width: 1, height: 1, data });

describe('the result of actions', () => {
  it('contains their results and the last picture, which is not in the text', () => {
    const answer = { ok: true, results: [{ index: 0, screenshot: picture('AAAA') }, { index: 1 }], screenshot: picture('BBBB', 'jpeg') };
    const { content } = actionsResult(received(answer));
    expect(content.map((each) => ('text' in each ? each.text : each))).toEqual([
      '{"ok":true,"results":[{"index":0,"screenshot":{"format":"png","width":1,"height":1}},{"index":1}],"screenshot":{"format":"jpeg","width":1,"height":1}}',
      'Only the last of 2 pictures is shown: ask for them one by one.',
      { type: 'image', data: 'BBBB', mimeType: 'image/jpeg' },
    ]);
  });

  it('is a text only, which always fits, without a picture', () => {
    const results = Array.from({ length: 50 }, (_, index) => ({ index, ok: false, error: { code: 'a', message: 'x'.repeat(5_000) } }));
    const { content } = actionsResult(received({ ok: false, results }));
    expect(content).toHaveLength(1);
    expect(Buffer.byteLength(JSON.stringify(content[0]))).toBeLessThan(1.5 * SHOWN_BYTES_MAX);
  });

  it('reports that the actions were started if the pictures do not fit, so that they are not repeated', () => {
    const cut = actionsResult({ ...received({}), body: Buffer.from('{"ok":tr'), isCut: true });
    expect(cut).toMatchObject({ isError: true, content: [{ text: expect.stringMatching(/payload_too_large.*were begun/) }] });
  });
});
