/*
 * Runs one agent of the local runtime and outlives the service: it keeps the agent's output and exit code on disk, so that
 * the next start of the service finds them. Plain Node, because it runs as it is from src and from dist.
 * Arguments: container folder, number of the run, file to touch on a change. Standard input: { command, environment, cwd, port } as
 * JSON, since secrets must not show in a process list. Answers one JSON line: {} or { refused }.
 */
import { spawn } from 'node:child_process';
import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  linkSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { LINE_BYTES_MAX, LongLine } from '../long-line.mjs';
import { missingPart } from '../missing-part.mjs';
import { whoIs } from './process-identity.mjs';

const SEGMENT_BYTES = 10 * 1024 * 1024;
const SEGMENTS = 3;
/** The time to wait for the last output after the exit, in ms: a process that left the agent's group may keep the output open forever. */
const LAST_OUTPUT_MS = 1_000;

const [folder, run, changes] = process.argv.slice(2);
const record = (name) => join(folder, `${name}-${run}.json`);

function write(path, value) {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(value), { mode: 0o600 });
  renameSync(temporary, path);
}

/**
 * Writes the record of the run. Returns false if another supervisor has this run already: unlike a rename, a link never replaces a file.
 */
function claim(path, value) {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(value), { mode: 0o600 });
  try {
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

function answer(value) {
  process.stdout.on('error', () => undefined);
  process.stdout.end(`${JSON.stringify(value)}\n`);
}

function changed() {
  try {
    writeFileSync(changes, String(Date.now()));
  } catch {
    // The container is being removed.
  }
}

const segmentName = (number) => join(folder, `output-${String(number).padStart(8, '0')}.log`);
const segmentNumbers = () =>
  readdirSync(folder)
    .map((name) => /^output-(\d{8})\.log$/.exec(name))
    .filter(Boolean)
    .map((match) => Number(match[1]))
    .sort((a, b) => a - b);

/** Numbered files of lines `<time> <o|e> <text>`. Times increase from line to line, over runs too, so that a time names one line. */
class Output {
  constructor() {
    const last = segmentNumbers().at(-1) ?? 0;
    this.number = Math.max(last, 1);
    this.file = openSync(segmentName(this.number), 'a+', 0o600);
    this.size = fstatSync(this.file).size;
    const tail = Buffer.alloc(Math.min(this.size, 2 * LINE_BYTES_MAX));
    readSync(this.file, tail, 0, tail.length, this.size - tail.length);
    const times = [...tail.toString('latin1').matchAll(/(?:^|\n)(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z [oe] /g)].at(-1);
    this.lastTime = times ? BigInt(Date.parse(`${times[1]}Z`)) * 1_000_000n + BigInt(times[2]) : 0n;
    // A power loss may have left an incomplete line.
    if (this.size > 0 && tail.at(-1) !== 10) this.append('\n');
  }

  time() {
    const now = BigInt(Date.now()) * 1_000_000n;
    this.lastTime = now > this.lastTime ? now : this.lastTime + 1n;
    const seconds = new Date(Number(this.lastTime / 1_000_000n)).toISOString().slice(0, 19);
    return `${seconds}.${String(this.lastTime % 1_000_000_000n).padStart(9, '0')}Z`;
  }

  append(text) {
    const bytes = Buffer.from(text);
    try {
      if (this.size > 0 && this.size + bytes.length > SEGMENT_BYTES) this.rotate();
      for (let done = 0; done < bytes.length;) done += writeSync(this.file, bytes, done);
      this.size += bytes.length;
    } catch {
      // On a full disk, log lines are lost, but the agent keeps running.
    }
  }

  rotate() {
    const next = openSync(segmentName(this.number + 1), 'a', 0o600);
    closeSync(this.file);
    this.file = next;
    this.number += 1;
    this.size = 0;
    for (const old of segmentNumbers()) if (old <= this.number - SEGMENTS) rmSync(segmentName(old), { force: true });
  }
}

/** Splits a stream into lines. It keeps the beginning of an unfinished line, and counts the rest. */
function keepLines(stream, letter, output) {
  let line = null;
  const add = (part) => {
    line ??= new LongLine();
    line.add(part);
  };
  const finish = () => {
    const text = line.text();
    line = null;
    return `${output.time()} ${letter} ${text}\n`;
  };
  stream.on('error', () => undefined);
  stream.on('data', (chunk) => {
    let text = '';
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      add(chunk.subarray(from, end));
      text += finish();
      from = end + 1;
    }
    if (from < chunk.length) add(chunk.subarray(from));
    if (text !== '') output.append(text);
  });
  return () => {
    if (line !== null) output.append(finish());
  };
}

const signalNumbers = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
};

function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // No process of the group is left.
  }
}

/** Adds a change to the container's log of its states, which is best effort. */
function addState(state, at) {
  try {
    appendFileSync(join(folder, 'states.jsonl'), `${JSON.stringify({ state, at })}\n`, { mode: 0o600 });
  } catch {
    // The container is being removed.
  }
}

function ended(exitCode, endedAt = new Date().toISOString()) {
  addState('exited', endedAt);
  write(record('exit'), { exitCode, endedAt });
  changed();
  process.exit(0);
}

function supervise(launch) {
  const facts = {
    run: Number(run),
    supervisor: { pid: process.pid, identity: whoIs(process.pid)?.identity },
    agent: null,
    port: launch.port,
    startedAt: new Date().toISOString(),
  };
  if (!claim(record('run'), facts)) return answer({});
  addState('running', facts.startedAt);
  for (const name of readdirSync(folder))
    if (new RegExp(`^(run|exit)-(?!${run}\\.)\\d+\\.json$`).test(name)) rmSync(join(folder, name), { force: true });
  const [program, ...rest] = launch.command;
  const refuse = (error) => {
    const part = error.code === 'ENOENT' ? missingPart(program, launch.cwd) : null;
    const reason = part ?? error.code;
    answer({
      refused: existsSync(launch.cwd) ? `the start command ${program} can't be run: ${reason}` : 'the program of this container is gone',
    });
    ended(error.code === 'ENOENT' ? 127 : 126);
  };
  let agent;
  try {
    agent = spawn(program === 'node' ? process.execPath : program, rest, {
      cwd: launch.cwd,
      env: launch.environment,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    // A variable is too long, or contains a NUL.
    return refuse(error);
  }
  agent.on('error', (error) => {
    if (agent.pid === undefined) refuse(error);
  });
  if (agent.pid === undefined) return;
  // After any error here (such as the removal of the container), no agent may keep running without a supervisor.
  process.on('uncaughtException', () => {
    killGroup(agent.pid);
    process.exit(1);
  });
  write(record('run'), { ...facts, agent: { pid: agent.pid, identity: whoIs(agent.pid)?.identity } });
  const output = new Output();
  const finishers = [keepLines(agent.stdout, 'o', output), keepLines(agent.stderr, 'e', output)];
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => agent.kill('SIGTERM'));
  agent.on('exit', (code, signal) => {
    const endedAt = new Date().toISOString();
    killGroup(agent.pid);
    const finish = () => {
      for (const flush of finishers) flush();
      ended(code ?? 128 + (signalNumbers[signal] ?? 0), endedAt);
    };
    agent.on('close', finish);
    setTimeout(finish, LAST_OUTPUT_MS);
  });
  answer({});
  changed();
}

const input = [];
for await (const chunk of process.stdin) input.push(chunk);
supervise(JSON.parse(Buffer.concat(input).toString('utf8')));
