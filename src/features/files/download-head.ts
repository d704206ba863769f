import type { RequestContext } from '../../http/server/request-context.ts';
import { contentTypeOf, dispositionOf } from './download-headers.ts';
import type { Download } from './downloads.service.ts';

/** Sets the headers of a download, with which no browser executes the content. */
export function describeDownload({ name, file }: Download, call: RequestContext): void {
  call.setHeader('content-type', contentTypeOf(name));
  call.setHeader('content-disposition', dispositionOf(name));
  call.setHeader('content-security-policy', 'sandbox');
  call.setHeader('cache-control', 'private, no-cache');
  call.setHeader('accept-ranges', file === null ? 'none' : 'bytes');
  if (file === null) return;
  const { size, etag, lastModified, range } = file;
  call.setHeader('etag', etag);
  call.setHeader('last-modified', lastModified);
  call.setHeader('content-length', String(range === null ? size : range.end - range.start + 1));
  if (range === null) return;
  call.setStatus(206);
  call.setHeader('content-range', `bytes ${range.start}-${range.end}/${size}`);
}
