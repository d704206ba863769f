/**
 * A multipart form in the body of a request: one file, and some texts.
 *
 * Owns: the reading of the body, at the pace at which the file's content is consumed. Does not own the file's destination.
 *
 * M1  The form is read once. Its bytes are buffered only within the bounds of the parser and one chunk.
 * M2  The file's content ends only once the whole form was read and is valid, so its consumer never accepts a truncated or invalid form.
 * M3  A form that stalls, breaks off or has unknown fields fails, unless it is the file's consumer that is slow.
 */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

import { Busboy, type BusboyFileStream } from '@fastify/busboy';

import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import { discardRest } from './discard-rest.ts';

/** The form that a route accepts: one file, and some texts. */
export interface FormLimits {
  /** The name of the field with the file. */
  file: string;
  /**
   * The most bytes of the file. A form whose length exceeds this is refused before it is read; the consumer of the file enforces it
   * otherwise.
   */
  fileBytesMax: number;
  /** The names of the text fields, with the most bytes of each. */
  texts: Readonly<Record<string, number>>;
}

export interface FormFile {
  /** The name as the sender gave it, without the folders of its path; it may be empty. */
  name: string;
  contentType: string;
  /**
   * M2: The bytes as they arrive. The stream ends only once the whole form was read and is valid, and is destroyed with an error if it is
   * not.
   */
  content: Readable;
  /** The texts of the form, those after the file included, once the whole form was read and is valid. */
  texts: Promise<Readonly<Record<string, string>>>;
}

/** The bytes of a form besides its file: the heads of its parts and its texts. */
const OTHER_BYTES_MAX = 262_144;
const PARTS_MAX = 10;
/** RFC 2046, 5.1.1. */
const BOUNDARY_MAX = 70;
const PART_HEADER_BYTES_MAX = 16_384;
/** M3: The longest time without a byte while the form could be read, in ms. */
const STALL_MS = 30_000;

/** The form of one request. See M1 to M3. */
export class MultipartForm {
  private readonly found: Record<string, string> = {};
  private readonly whole: Promise<Record<string, string>>;
  private complete: (texts: Record<string, string>) => void = () => {};
  private reject: (error: Error) => void = () => {};
  private part: BusboyFileStream | null = null;
  private work: Promise<unknown> | null = null;
  private isOver = false;

  private constructor(
    private readonly request: IncomingMessage,
    private readonly rules: FormLimits,
    private readonly stallMs: number,
  ) {
    this.whole = new Promise((resolve, reject) => {
      this.complete = resolve;
      this.reject = reject;
    });
    this.whole.catch(() => undefined);
  }

  /** Throws `unsupported_media_type` if the body is no form, and `payload_too_large` if its length is too large. */
  static async of(request: IncomingMessage, rules: FormLimits, stallMs = STALL_MS): Promise<MultipartForm> {
    const form = new MultipartForm(request, rules, stallMs);
    const error = form.headerProblem();
    if (error === null) return form;
    await discardRest(request);
    throw error;
  }

  /**
   * Reads the form and passes its file to `onFile`, which consumes the content. Returns its result. Throws its error, and
   * `invalid_request` for a form that is malformed, has other fields, has no file, breaks off or stalls.
   */
  async read<T>(onFile: (file: FormFile) => Promise<T>): Promise<T> {
    const { request } = this;
    const parser = this.parserFor(onFile);
    const stalled = setTimeout(() => {
      // M3: A form that has arrived, or whose bytes wait for the consumer of its file, is not late: the agent may have to wake first.
      if (request.complete || parser.writableNeedDrain) stalled.refresh();
      else this.fail(new ProblemError('invalid_request', 'The form comes too slowly.'));
    }, this.stallMs);
    const onClose = () => {
      if (!request.readableEnded) this.fail(new ProblemError('invalid_request', 'The body did not come to its end.'));
    };
    if (request.destroyed) onClose();
    request.on('data', () => stalled.refresh());
    request.once('close', onClose);
    try {
      request.pipe(parser);
      await this.whole;
      return (await this.work) as T;
    } catch (error) {
      request.unpipe(parser);
      await this.work?.catch(() => undefined);
      await discardRest(request);
      throw error;
    } finally {
      clearTimeout(stalled);
      request.off('close', onClose);
    }
  }

  private headerProblem(): ProblemError | null {
    const { headers } = this.request;
    if (!/^multipart\/form-data\s*;.*boundary=/i.test(headers['content-type'] ?? ''))
      return new ProblemError('unsupported_media_type', 'The body must be multipart/form-data with a boundary.');
    if (boundaryOf(headers['content-type'] ?? '').length > BOUNDARY_MAX)
      return new ProblemError('invalid_request', `The boundary of a form has ${BOUNDARY_MAX} characters at most.`);
    return Number(headers['content-length'] ?? 0) > this.rules.fileBytesMax + OTHER_BYTES_MAX ? tooLarge(this.rules.fileBytesMax) : null;
  }

  private parserFor(onFile: (file: FormFile) => Promise<unknown>) {
    const { 'content-type': type = '' } = this.request.headers;
    const fieldSize = Math.max(...Object.values(this.rules.texts)) + 1;
    const limits = { fieldSize, fields: PARTS_MAX, files: 2, parts: PARTS_MAX, headerPairs: 20, headerSize: PART_HEADER_BYTES_MAX };
    const parser = new Busboy({ headers: { 'content-type': type }, limits, fileHwm: 65_536, highWaterMark: 65_536 });
    const tooMany = () => this.fail(new ProblemError('invalid_request', `A form may have ${PARTS_MAX} parts at most.`));
    parser.on('partsLimit', tooMany).on('fieldsLimit', tooMany).on('filesLimit', tooMany);
    parser.on('field', (name, text) => this.addText(name, text));
    parser.on('file', (name, part, fileName, _encoding, contentType) => {
      // A part that is not read any more may still fail.
      part.on('error', () => undefined);
      if (name !== this.rules.file || this.work !== null || this.isOver) {
        part.resume();
        this.fail(name === this.rules.file ? invalidField(name, 'must be one file') : unknownField(name));
        return;
      }
      this.part = part;
      const content = Readable.from(this.contentOf(part), { objectMode: false, highWaterMark: 65_536 });
      content.on('error', () => undefined);
      this.work = onFile({ name: baseName(fileName), contentType, content, texts: this.whole });
      this.work.catch((error: Error) => this.fail(error)).finally(() => content.destroy());
    });
    parser.on('error', () => this.fail(new ProblemError('invalid_request', 'The body is not a well-formed form.')));
    parser.on('finish', () => this.finish());
    return parser;
  }

  private async *contentOf(part: BusboyFileStream): AsyncGenerator<Buffer> {
    for await (const chunk of part) yield chunk as Buffer;
    await this.whole;
  }

  private addText(name: string, text: string): void {
    const bytesMax = Object.hasOwn(this.rules.texts, name) ? this.rules.texts[name] : undefined;
    if (name === this.rules.file) this.fail(invalidField(name, 'must be a file, with a file name'));
    else if (bytesMax === undefined) this.fail(unknownField(name));
    else if (Object.hasOwn(this.found, name)) this.fail(invalidField(name, 'must be given once'));
    else if (Buffer.byteLength(text) > bytesMax) this.fail(invalidField(name, `must be at most ${bytesMax} bytes of UTF-8`));
    else this.found[name] = text;
  }

  private finish(): void {
    if (this.work === null) this.fail(invalidField(this.rules.file, 'must be given'));
    if (this.isOver) return;
    this.isOver = true;
    this.complete(this.found);
  }

  private fail(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.reject(error);
    this.part?.destroy(error);
  }
}

function tooLarge(bytesMax: number): ProblemError {
  return new ProblemError('payload_too_large', `The file may have ${bytesMax} bytes at most.`);
}

function unknownField(name: string): ProblemError {
  return invalidField(name.slice(0, 100).toWellFormed(), 'is not a known field');
}

/** Returns the last part of a path, with the separators of any system. */
function baseName(path: string | undefined): string {
  return (path ?? '').split(/[/\\]/).at(-1) ?? '';
}

/** Returns the boundary that a media type names, without its quotes. */
function boundaryOf(mediaType: string): string {
  const [, quoted, plain = ''] = /;\s*boundary=(?:"([^"]*)"|([^;]*))/i.exec(mediaType) ?? [];
  return quoted ?? plain.trim();
}
