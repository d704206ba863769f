/*
 * The script of the page in which a person sees and controls the desktop of a computer. noVNC draws the desktop and sends input. This file
 * gets a ticket for each connection, shows the state of the session, and handles the buttons.
 *
 * It owns the state of the page: the connection, whether its user is in control, and the last text of the shared clipboard. It does not own
 * the session or the right to control, which the service checks for every message (`viewer-relay.ts`); the page only shows them.
 *
 * Invariants:
 * P1. A ticket is used for one connection. Each reconnection gets a new one.
 * P2. A lost connection is made again after growing pauses, until the service answers that the session has ended.
 * P3. Nothing is sent to the desktop while the user is not in control.
 * P4. A text that the two clipboards already have in common is not sent again, so that the two do not exchange it forever.
 */

/** The titles and texts for a session that can't be used, by the service's name of its state. */
const ENDS = {
  invalid: ['This link is not valid', 'Check that it was copied as a whole, or ask for a new one.'],
  closed: ['This session was closed', 'Ask for a new link if you still need the computer.'],
  expired: ['This link has expired', 'Ask for a new link.'],
  asleep: ['The computer went to sleep', 'Ask for a new link to wake it.'],
  deleted: ['The computer was deleted', 'There is nothing to see any more.'],
  revoked: ['This link is not valid any more', 'Ask for a new link if you still need the computer.'],
  viewer_taken: ['This link is open in another browser', 'A link belongs to the browser that opened it first. Ask for a link of your own.'],
  origin_not_allowed: ['This page may not connect', 'Open the link at the address that you were given.'],
  broken: ['The connection was refused', 'The service ended it, since this page sent something that it does not take.'],
};
/** The close codes of connections whose session has ended. */
const END_CODES = { 4001: 'closed', 4002: 'expired', 4003: 'asleep', 4004: 'deleted', 4006: 'revoked', 1008: 'broken' };
const RETRY_MS = { first: 500, longest: 15_000 };
const RELOAD_MS = 2_000;
/** The key symbols of characters that are not printable. */
const KEYSYMS = { '\n': 0xff0d, '\t': 0xff09 };
const BACKSPACE = 0xff08;
/** The initial text of the field for the keyboard of a touch screen. Typed characters follow it; a missing part of it was deleted. */
const FILLER = '_'.repeat(32);

const at = (id) => document.getElementById(id);
const address = location.href.split(/[?#]/, 1)[0];
// noVNC decodes a test video when it is loaded, and waits forever if that hangs. No desktop sends video.
Reflect.deleteProperty(globalThis, 'VideoDecoder');
const RFB = await loadRfb();

let rfb = null;
let retryMs = RETRY_MS.first;
let isInControl = false;
let isClipboardShared = false;
/** The last text that both clipboards had; null sends the next text in any case. */
let commonText = '';

/** Returns noVNC's class for a desktop. Reloads the page if it could not be loaded, because a browser does not load a failed module again. */
async function loadRfb() {
  try {
    return (await import(new URL('novnc/core/rfb.js', import.meta.url).href)).default;
  } catch {
    show('Connecting again…', 'A part of this page could not be loaded.');
    setTimeout(() => location.reload(), RELOAD_MS);
    return new Promise(() => {});
  }
}

function show(title, text = '') {
  at('message').hidden = false;
  at('message-title').textContent = title;
  at('message-text').textContent = text;
}

function end(word) {
  document.body.dataset.state = word;
  const [title, text] = ENDS[word] ?? ENDS.closed;
  show(title, text);
  setControl('', false);
}

function setControl(sentence, allowed) {
  isInControl = allowed;
  at('mode').textContent = sentence;
  for (const id of ['clipboard-send', 'clipboard-share', 'keyboard-button']) at(id).disabled = !allowed;
  if (rfb !== null) rfb.viewOnly = !allowed; // P3
}

function onState({ mode, control }) {
  document.body.dataset.control = String(control);
  setControl(control ? 'You are in control' : mode === 'view' ? 'View only' : 'Someone else is in control', control);
}

/** Returns a ticket for one connection; null if the session has ended, or if another attempt was scheduled. */
async function ticket() {
  let answer;
  try {
    answer = await fetch(`${address}/tickets`, { method: 'POST', credentials: 'same-origin', cache: 'no-store' });
  } catch {
    return retry();
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body.ticket;
  if (answer.status === 401) end('invalid');
  else if (answer.status === 410) end(body.reason ?? 'closed');
  else if (answer.status === 403) end(body.code);
  else return retry();
  return null;
}

function retry() {
  show('Connecting again…', 'The connection to the computer was lost.');
  setControl('', false);
  setTimeout(() => void connect(), retryMs * (0.5 + Math.random() / 2));
  retryMs = Math.min(RETRY_MS.longest, retryMs * 2); // P2
  return null;
}

/** A connection for noVNC, without the text frames, which contain the state of the session. */
class Channel {
  binaryType = 'arraybuffer';
  onopen = null;
  onclose = null;
  onerror = null;
  onmessage = null;
  protocol = '';

  constructor(url) {
    this.socket = new WebSocket(url);
    this.socket.binaryType = 'arraybuffer';
    this.socket.addEventListener('open', (event) => this.onopen?.(event));
    this.socket.addEventListener('error', (event) => this.onerror?.(event));
    this.socket.addEventListener('close', (event) => {
      this.onclose?.(event);
      onClose(event.code);
    });
    this.socket.addEventListener('message', (event) => {
      if (typeof event.data === 'string') onState(JSON.parse(event.data));
      else this.onmessage?.(event);
    });
  }

  get readyState() {
    return this.socket.readyState;
  }

  send(data) {
    this.socket.send(data);
  }

  close() {
    this.socket.close();
  }
}

async function connect() {
  const credential = await ticket(); // P1
  if (credential === null) return;
  at('screen').replaceChildren();
  const url = `${address.replace(/^http/, 'ws')}/socket?ticket=${encodeURIComponent(credential)}`;
  rfb = new RFB(at('screen'), new Channel(url), { shared: true });
  rfb.viewOnly = !isInControl;
  rfb.background = 'transparent';
  setScale();
  rfb.addEventListener('connect', () => {
    retryMs = RETRY_MS.first;
    document.body.dataset.state = 'connected';
    at('message').hidden = true;
    rfb.focus();
  });
  rfb.addEventListener('clipboard', ({ detail }) => void takeText(detail.text));
}

function onClose(code) {
  const word = END_CODES[code];
  rfb = null;
  if (word !== undefined) end(word);
  else if (document.body.dataset.state in ENDS) return;
  else retry();
}

/** Shows a text of the computer's clipboard, and copies it to the browser's clipboard if the user shares that. */
async function takeText(text) {
  commonText = text;
  at('clipboard-text').value = text;
  if (isClipboardShared) await navigator.clipboard?.writeText(text).catch(() => undefined);
}

function sendText(text) {
  if (rfb === null || !isInControl || text === commonText) return; // P3, P4
  commonText = text;
  at('clipboard-text').value = text;
  rfb.clipboardPasteFrom(text);
}

/** Sends the text of the browser's clipboard. The browser asks its user the first time. */
async function shareText() {
  const text = await navigator.clipboard?.readText().catch(() => null);
  if (text) sendText(text);
  return typeof text === 'string';
}

function setScale() {
  if (rfb !== null) rfb.scaleViewport = at('scale-button').getAttribute('aria-pressed') === 'true';
}

/** Sends the characters that were typed into the field for the keyboard of a touch screen. */
function typeKeys() {
  const { value } = at('keys');
  const kept = value.startsWith(FILLER) ? FILLER.length : Math.min(value.length, FILLER.length);
  for (let n = kept; n < FILLER.length; n += 1) rfb?.sendKey(BACKSPACE, 'Backspace');
  for (const character of value.slice(kept)) {
    const code = character.codePointAt(0);
    rfb?.sendKey(KEYSYMS[character] ?? (code < 0x100 ? code : 0x1000000 + code), null);
  }
  resetKeys();
}

function resetKeys() {
  const field = at('keys');
  field.value = FILLER;
  field.setSelectionRange(FILLER.length, FILLER.length);
}

at('clipboard-button').addEventListener('click', () => {
  const panel = at('clipboard');
  panel.hidden = !panel.hidden;
  at('clipboard-button').setAttribute('aria-expanded', String(!panel.hidden));
  if (panel.hidden) rfb?.focus();
  else at('clipboard-text').focus();
});
at('clipboard-send').addEventListener('click', () => {
  const text = at('clipboard-text').value;
  commonText = null;
  sendText(text);
});
at('clipboard-share').addEventListener('click', () => {
  void shareText().then((isShared) => {
    isClipboardShared = isShared;
    at('clipboard-share').textContent = isShared ? 'My clipboard is shared' : 'The browser does not share it';
  });
});
window.addEventListener('focus', () => {
  if (isClipboardShared) void shareText();
});
at('keyboard-button').addEventListener('click', () => {
  resetKeys();
  at('keys').focus();
});
at('keys').addEventListener('input', (event) => {
  if (!event.isComposing) typeKeys();
});
at('keys').addEventListener('compositionend', typeKeys);
at('scale-button').addEventListener('click', ({ currentTarget }) => {
  const isScaled = currentTarget.getAttribute('aria-pressed') === 'true';
  currentTarget.setAttribute('aria-pressed', String(!isScaled));
  setScale();
});
at('screen-button').hidden = !document.fullscreenEnabled;
at('screen-button').addEventListener('click', () => {
  if (document.fullscreenElement === null) void document.documentElement.requestFullscreen().then(() => rfb?.focus());
  else void document.exitFullscreen();
});
document.addEventListener('fullscreenchange', () => {
  at('screen-button').textContent = document.fullscreenElement === null ? 'Full screen' : 'Leave full screen';
});

setControl('', false);
const { state } = document.body.dataset;
if (state === 'open') void connect();
else end(state);
