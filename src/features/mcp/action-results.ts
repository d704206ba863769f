import { fitToBytes } from './fitting.ts';
import { SHOWN_BYTES_MAX } from './tool.ts';
import { failureResult, type ToolResponse, textResult, type ToolResult } from './tool-results.ts';

interface Picture {
  format: string;
  data?: string;
}

/** The pictures in the response of the route that acts on a computer. */
interface ActionsAnswer {
  results: { screenshot?: Picture }[];
  screenshot?: Picture;
}

/** Returns the results of the actions as a text, and the last of their pictures, since a result has one picture. */
export function actionsResult({ body, isCut }: ToolResponse): ToolResult {
  if (isCut)
    return failureResult({
      code: 'payload_too_large',
      detail: 'The actions were begun, but their pictures are too large to be shown: ask for one at the end, smaller (scale) or as JPEG.',
    });
  const answer = JSON.parse(body.toString()) as ActionsAnswer;
  const pictures = [...answer.results.map(({ screenshot }) => screenshot), answer.screenshot].filter((each) => each !== undefined);
  const last = pictures.at(-1);
  const { format, data } = last ?? {};
  // Pictures are separate from the text of a result.
  for (const picture of pictures) delete picture.data;
  const notes = pictures.length > 1 ? [`Only the last of ${pictures.length} pictures is shown: ask for them one by one.`] : [];
  const { content } = textResult(JSON.stringify(fitToBytes(answer, SHOWN_BYTES_MAX)), notes);
  return { content: data === undefined ? content : [...content, { type: 'image', data, mimeType: `image/${format}` }] };
}
