export { Downloads, type Download, type DownloadRequest } from './downloads.service.ts';
export { Files, type FileCall } from './files.service.ts';
export { Uploads, type FileBody, type FileTarget as PlacedFile } from './uploads.service.ts';
