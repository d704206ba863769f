import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

import { until } from './until.ts';

const OPTIONS =
  `--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --disable-background-networking --mute-audio
  --remote-debugging-pipe about:blank`.split(/\s+/);

interface Reply {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  sessionId?: string;
  result?: Record<string, unknown>;
  error?: { message: string };
}

type Listener = (method: string, params: Record<string, unknown>) => void;

/** A headless Chromium, controlled over a pipe with its own protocol. Its program is Debian's chromium. */
export class Chromium {
  private nextId = 1;
  private readonly asked = new Map<number, { resolve: (result: Record<string, unknown>) => void; reject: (error: Error) => void }>();
  private readonly listeners = new Map<string, Listener>();
  private rest = '';

  private constructor(
    private readonly folder: string,
    private readonly program: ChildProcess,
  ) {
    const output = program.stdio[4] as Readable;
    output.setEncoding('utf8');
    output.on('data', (text: string) => this.onText(text));
    output.on('error', () => undefined);
    (program.stdio[3] as Writable).on('error', () => undefined);
    const failed = (error: Error) => this.asked.forEach(({ reject }) => reject(error));
    program.once('error', () => failed(new Error('chromium is missing: install it')));
    program.once('exit', () => failed(new Error('chromium has ended')));
  }

  static async start(): Promise<Chromium> {
    const folder = await mkdtemp(join(tmpdir(), 'chromium-'));
    const env = { PATH: process.env['PATH'], HOME: folder, LANG: 'C.UTF-8' };
    const stdio = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] as const;
    const program = spawn('chromium', [...OPTIONS, `--user-data-dir=${folder}/profile`], { cwd: folder, env, stdio: [...stdio] });
    const browser = new Chromium(folder, program);
    await browser.send('Browser.getVersion').catch(async (error: unknown) => {
      await browser.stop();
      throw error;
    });
    return browser;
  }

  /** Opens the address in a browser of its own, which has no cookies yet. */
  async open(url: string): Promise<Page> {
    const { browserContextId } = await this.send('Target.createBrowserContext');
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId, width: 1400, height: 950 });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page((method, params) => this.send(method, params, sessionId as string));
    this.listeners.set(sessionId as string, (method, params) => page.onEvent(method, params));
    for (const domain of ['Page', 'Runtime', 'Log']) await page.send(`${domain}.enable`);
    await page.load(url);
    return page;
  }

  async stop(): Promise<void> {
    if (this.program.exitCode === null && this.program.signalCode === null && this.program.kill('SIGKILL'))
      await once(this.program, 'exit');
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }

  send(method: string, params: object = {}, sessionId?: string): Promise<Record<string, unknown>> {
    const id = this.nextId;
    this.nextId += 1;
    const sent = JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) });
    (this.program.stdio[3] as Writable).write(`${sent}\0`);
    return new Promise((resolve, reject) => this.asked.set(id, { resolve, reject }));
  }

  private onText(text: string): void {
    const messages = (this.rest + text).split('\0');
    this.rest = messages.pop() ?? '';
    for (const message of messages) this.onReply(JSON.parse(message) as Reply);
  }

  private onReply({ id, method, params = {}, sessionId, result = {}, error }: Reply): void {
    if (method !== undefined) return this.listeners.get(sessionId ?? '')?.(method, params);
    const question = this.asked.get(id ?? 0);
    this.asked.delete(id ?? 0);
    if (error === undefined) question?.resolve(result);
    else question?.reject(new Error(error.message));
  }
}

/** A page of a browser. */
export class Page {
  /** The browser's errors: those of scripts, and violations of the page's policy. */
  readonly complaints: string[] = [];

  constructor(readonly send: (method: string, params?: object) => Promise<Record<string, unknown>>) {}

  onEvent(method: string, params: Record<string, unknown>): void {
    if (method === 'Runtime.exceptionThrown') this.complaints.push(JSON.stringify(params));
    if (method !== 'Log.entryAdded') return;
    const { level, source, text } = params['entry'] as Record<string, string>;
    if (level === 'error' && source !== 'network') this.complaints.push(`${source}: ${text}`);
  }

  load(url: string): Promise<unknown> {
    return this.send('Page.navigate', { url });
  }

  reload(): Promise<unknown> {
    return this.send('Page.reload');
  }

  /** Returns the value of an expression in the page. */
  async value<T>(expression: string): Promise<T> {
    const { result } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    return (result as { value: T }).value;
  }

  /** Waits until the expression holds in the page. */
  async shows(what: string, expression: string): Promise<void> {
    const holds = async () => ((await this.value<boolean>(`Boolean(${expression})`)) ? true : undefined);
    await until(what, holds, { timeoutMs: 30_000 }).catch(async (error: Error) => {
      const text = await this.value<string>('document.body.outerHTML');
      throw new Error(`${error.message}; the page is ${text.slice(0, 3_000)}, and the browser complained of ${this.complaints.join(', ')}`);
    });
  }

  async click(selector: string): Promise<void> {
    const { x, y } = await this.value<{ x: number; y: number }>(
      `(({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 }))(document.querySelector('${selector}').getBoundingClientRect())`,
    );
    await this.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
    for (const type of ['mousePressed', 'mouseReleased'])
      await this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
  }

  /** Presses the keys of the text, as a person does on a keyboard; a line feed is Enter. */
  async type(text: string): Promise<void> {
    for (const character of text) {
      const isEnter = character === '\n';
      const key = isEnter ? { key: 'Enter', code: 'Enter', text: '\r', windowsVirtualKeyCode: 13 } : { key: character, text: character };
      await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...key });
      await this.send('Input.dispatchKeyEvent', { ...key, type: 'keyUp', text: undefined });
    }
  }

  /** Presses a key without a character, while shift is down. */
  async pressWithShift(key: string, virtualKey: number): Promise<void> {
    const shift = { key: 'Shift', code: 'ShiftLeft', windowsVirtualKeyCode: 16 };
    const pressed = { key, code: key, windowsVirtualKeyCode: virtualKey, modifiers: 8 };
    await this.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...shift, modifiers: 8 });
    await this.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...pressed });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...pressed });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...shift });
  }
}
