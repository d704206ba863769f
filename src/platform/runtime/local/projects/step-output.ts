import { StringDecoder } from 'node:string_decoder';
import { stripVTControlCharacters } from 'node:util';
import { isNoise } from '../../build-failure.ts';
import type { OutputStream } from '../../runtime.ts';

/** The largest output of one build in its log, in bytes. */
const LOG_BYTES_MAX = 4 * 1024 * 1024;
/**
 * The largest part of a line that is kept, in characters. The log of a deployment masks secrets and then cuts lines much shorter, so that no half
 * of a secret is left.
 */
const LINE_CHARACTERS_MAX = 64 * 1024;

/** Cuts the output of a build's commands into lines of its log. It keeps at most one line of each stream in memory. */
export class StepOutput {
  private roomBytes = LOG_BYTES_MAX;
  private lastLine = '';
  private streams = newStreams();

  constructor(private readonly log: (line: string) => void) {}

  take(stream: OutputStream, bytes: Buffer): void {
    const state = this.streams[stream];
    // A carriage return begins a line anew; each of its versions counts as a line here.
    const lines = (state.rest + state.decoder.write(bytes)).split(/[\r\n]+/);
    state.rest = (lines.pop() ?? '').slice(0, LINE_CHARACTERS_MAX);
    for (const line of lines) this.line(line);
  }

  /** Logs what is left of unfinished lines. Returns the last line of the command that says something, or '' if there was none. */
  endStep(): string {
    for (const { rest, decoder } of Object.values(this.streams)) this.line(rest + decoder.end());
    const last = this.lastLine;
    this.lastLine = '';
    this.streams = newStreams();
    return last;
  }

  private line(raw: string): void {
    const text = stripVTControlCharacters(raw).slice(0, LINE_CHARACTERS_MAX).trimEnd();
    if (text === '') return;
    if (!isNoise(text)) this.lastLine = text;
    if (this.roomBytes <= 0) return;
    this.roomBytes -= Buffer.byteLength(text);
    this.log(this.roomBytes > 0 ? text : 'The output of the build is too long; the rest of it is not kept.');
  }
}

function newStreams(): Record<OutputStream, { decoder: StringDecoder; rest: string }> {
  return { stdout: { decoder: new StringDecoder('utf8'), rest: '' }, stderr: { decoder: new StringDecoder('utf8'), rest: '' } };
}
