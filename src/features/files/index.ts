export { describeDownload } from './download-head.ts';
export { FILE_BYTES_MAX } from './downloads.service.ts';
export { fileEvents } from './files.events.ts';
export { FileListDto, FilePathDto, ListFilesDto, toFileList } from './files.dto.ts';
