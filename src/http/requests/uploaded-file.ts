import type { IncomingMessage } from 'node:http';

import { type FormLimits, MultipartForm } from './multipart-form.ts';
import { RawFile } from './raw-file.ts';

/**
 * Returns the file in the body of a route with `RawBody('stream')`, of which nothing has been read: the body itself, or the file of a form.
 * Throws what `MultipartForm.of` and `RawFile.of` throw.
 */
export function uploadedFile(request: IncomingMessage, rules: FormLimits): Promise<MultipartForm | RawFile> {
  const isForm = (request.headers['content-type'] ?? '').toLowerCase().startsWith('multipart/');
  return isForm ? MultipartForm.of(request, rules) : RawFile.of(request, rules.fileBytesMax);
}
