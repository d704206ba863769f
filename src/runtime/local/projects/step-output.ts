import { stripVTControlCharacters } from 'node:util';
import { FailureReason } from '../../build-failure.ts';
import { OutputLines } from '../../output-lines.ts';
import type { OutputStream } from '../../runtime.ts';

/** The largest output of one build in its log, in bytes. */
const LOG_BYTES_MAX = 4 * 1024 * 1024;

/** Writes the output of a build's commands to its log. */
export class StepOutput {
  private remainingBytes = LOG_BYTES_MAX;
  private reason = new FailureReason();
  private readonly streams: Record<OutputStream, OutputLines>;

  constructor(private readonly log: (line: string) => void) {
    const lines = () => new OutputLines((line) => this.line(line));
    this.streams = { stdout: lines(), stderr: lines() };
  }

  push(stream: OutputStream, bytes: Buffer): void {
    this.streams[stream].push(bytes);
  }

  /** Logs what is left of unfinished lines. Returns why the command failed, if it did; '' if it said nothing. */
  endStep(): string {
    for (const lines of Object.values(this.streams)) lines.end();
    const { text } = this.reason;
    this.reason = new FailureReason();
    return text;
  }

  private line(raw: string): void {
    const text = stripVTControlCharacters(raw).trimEnd();
    if (text === '') return;
    this.reason.push(text);
    if (this.remainingBytes <= 0) return;
    this.remainingBytes -= Buffer.byteLength(text);
    this.log(this.remainingBytes > 0 ? text : 'The output of the build is too long; the rest of it is not kept.');
  }
}
