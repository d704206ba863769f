import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { AnthropicOperator, ApiOperator, OpenaiOperator, type Operator, type Step, ToolOperator } from '../support/computer-operators.ts';
import { changedBox, colouredBox, decoded, partOf, type Box, type Picture } from '../support/pictures.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';
import { VendorModels } from '../support/vendor-models.ts';

const SIZE = { width: 1_024, height: 768 };
/** A place without a terminal, since a terminal hides the pointer during typing. */
const ASIDE = { x: 1_015, y: 728 };
/** The height of the bar at the bottom, which shows the time. */
const BAR = 32;
const TEXT = 'Größe café, zażółć, Ωμέγα, Привет, 你好, 日本語, 🚀🧭';
const GREEN = [0, 200, 0] as const;
const RED = [200, 0, 0] as const;
const BLUE = [0, 0, 200] as const;

/** A page with a form, served by the Perl of every Debian. It stores what is sent, and then becomes blue. */
const SERVER = `use Socket; $SIG{CHLD} = "IGNORE";
socket(S, PF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(0, inet_aton("127.0.0.1"))); listen(S, 9);
sub keep { open(F, ">", "$_[0].new"); print F $_[1]; close(F); rename("$_[0].new", $_[0]); }
my $style = "position:fixed;left:60px;border:0;outline:0;width:400px;height:80px";
my $form = "<form method=post><input name=text style='$style;top:40px;background:rgb(${GREEN.join()})'><button style='$style;top:180px;background:rgb(${RED.join()})'></button></form>";
keep("port", (sockaddr_in(getsockname(S)))[0]);
while (accept(C, S)) {
  next if fork;
  my $asked = "";
  while ($asked !~ /\\r\\n\\r\\n/) { sysread(C, $asked, 9999, length $asked) or exit; }
  my ($length) = ($asked =~ /content-length: (\\d+)/i, 0);
  my $whole = index($asked, "\\r\\n\\r\\n") + 4 + $length;
  while (length $asked < $whole) { sysread(C, $asked, 9999, length $asked) or exit; }
  my $isSent = $asked =~ /^POST/;
  keep("sent", substr($asked, $whole - $length)) if $isSent;
  my $body = "<meta charset=utf-8><title>page</title>" . ($isSent ? "<body style='background:rgb(${BLUE.join()})'>" : $form);
  syswrite(C, "HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\nConnection: close\\r\\nContent-Length: " . length($body) . "\\r\\n\\r\\n$body");
  exit;
}
`;

/** The commands of the guide, without the address and the key that a reader fills in. */
const guide = [...readFileSync(resolve(import.meta.dirname, '../../docs/guides/computers.md'), 'utf8').matchAll(/^```sh\n(.*?)^```/gms)]
  .map(([, commands = '']) => commands)
  .filter((commands) => !commands.includes('…'));

/** Declares the tests of a caller's whole use of a computer of the started service, from its creation on. */
export function computerLoop(runtime: 'docker' | 'local', environment: () => Promise<Record<string, string>>): void {
  let service: StartedService;
  let models: VendorModels;
  let tools: ToolOperator;
  let api: ApiOperator;
  let computerId: string;

  beforeAll(async () => {
    models = await VendorModels.start();
    const room = { MOORING_COMPUTERS_MEMORY_MAX_MB: '100000' };
    service = await StartedService.start({ runtime, environment: { ...room, ...(await environment()) } });
    tools = await ToolOperator.connect(service);
    api = new ApiOperator(service);
  });
  afterAll(async () => {
    await tools?.close();
    models?.close();
    const { body } = (await service?.call<{ computer_id: string }[]>('GET', '/api/v1/computers')) ?? { body: [] };
    for (const { computer_id } of body) await service.call('DELETE', `/api/v1/computers/${computer_id}`);
    await service?.dispose();
  });

  const routes = (path = '') => `/api/v1/computers${path}`;
  /** Sends a request whose body or response is not JSON. */
  const send = (method: string, path: string, body?: string) =>
    fetch(`${service.firstRun.url}${routes(path)}`, {
      method,
      headers: { authorization: `Bearer ${service.firstRun.api_key}`, 'content-type': 'text/plain' },
      ...(body === undefined ? {} : { body }),
    });
  /** Returns the content of a file of the computer; undefined while it does not exist. */
  const fileOf = async (path: string, id = computerId): Promise<string | undefined> => {
    const answer = await send('GET', `/${id}/files?path=${path}`);
    return answer.status === 200 ? answer.text() : undefined;
  };
  const seen = async (steps: readonly Step[] = [], operator: Operator = api): Promise<Picture> =>
    decoded((await operator.run(computerId, [...steps, { look: true }])).at(-1) as Buffer);

  /**
   * Opens a terminal and types the command, again if the terminal was not there yet, until the file has the content. Returns pictures from
   * before the command and from after it.
   */
  async function typed(operator: Operator, id: string, command: string, file: string, content: string): Promise<[Picture, Picture]> {
    let opening: Step[] = [{ press: ['ctrl', 'alt', 't'] }, { wait: 2 }, { move: ASIDE }];
    const [before, after] = await until(`${file} has its content`, async () => {
      const pictures = await operator.run(id, [...opening, { look: true }, { type: `${command}\n` }, { wait: 1 }, { look: true }]);
      opening = [];
      return (await fileOf(file, id)) === content ? pictures : undefined;
    });
    return Promise.all([decoded(before as Buffer), decoded(after as Buffer)]);
  }

  /** Expects that a line or two of text appeared on the screen, and nothing else changed. */
  function expectText(before: Picture, after: Picture): void {
    const { width, height } = changedBox(before, after, BAR) ?? { width: 0, height: 0 };
    expect(width).toBeGreaterThan(150);
    expect(height).toBeGreaterThan(10);
    expect(height).toBeLessThan(100);
  }

  it('makes one computer for an end user, which is awake', async () => {
    const order = { end_user_id: 'ana', display: SIZE };
    const made = await service.call('POST', routes(), order, { prefer: 'wait=120' });
    expect(made).toMatchObject({ status: 201, body: { status: 'awake', end_user_id: 'ana', display: SIZE } });
    computerId = made.body.computer_id as string;
    expect(await service.call('POST', routes(), order)).toMatchObject({ status: 200, body: { computer_id: computerId } });
  });

  it('opens the terminal by a batch that types a command, whose file is there and whose text is on the screen', async () => {
    const desktop = await seen();
    expect(desktop).toMatchObject(SIZE);
    const [before, after] = await typed(api, computerId, 'echo hello > note.txt', 'note.txt', 'hello\n');
    expectText(before, after);
    expect(changedBox(desktop, before, BAR)?.width).toBeGreaterThan(500);
    expect((await service.call('GET', routes(`/${computerId}/files/list`))).body.entries).toEqual(
      expect.arrayContaining([expect.objectContaining({ name: 'note.txt', size: 6 })]),
    );
  });

  it('types text of any script exactly', async () => {
    await api.run(computerId, [{ type: "cat > text.txt <<'END'\n" }, { type: `${TEXT}\n` }, { type: 'END\n' }]);
    expect(await until('the file is there', async () => (await fileOf('text.txt')) || undefined)).toBe(`${TEXT}\n`);
  });

  it('opens a page of its own in the browser, and fills in and sends the form on it by actions alone', async () => {
    expect((await send('PUT', `/${computerId}/files?path=server.pl`, SERVER)).status).toBe(201);
    await api.run(computerId, [{ type: 'perl server.pl &\n' }]);
    const port = await until('the page is served', () => fileOf('port'));
    await api.run(computerId, [{ press: ['ctrl', 'alt', 'b'] }]);
    const found = (colour: readonly [number, number, number], steps: readonly Step[]) =>
      until('the browser shows it', async () => colouredBox(await seen([...steps, { wait: 1 }]), colour) ?? undefined);
    const middle = ({ x, y, width, height }: Box) => ({ click: { x: x + Math.floor(width / 2), y: y + Math.floor(height / 2) } });
    const field = await found(GREEN, [{ press: ['ctrl', 'l'] }, { type: `localhost:${port}\n` }]);
    const looks = await api.run(computerId, [middle(field), { move: ASIDE }, { look: true }, { type: TEXT }, { wait: 1 }, { look: true }]);
    const [empty, filled] = (await Promise.all(looks.map(decoded))).map((picture) => partOf(picture, field));
    expect(changedBox(empty as Picture, filled as Picture)?.width).toBeGreaterThan(150);
    await api.run(computerId, [middle(await found(RED, []))]);
    const sent = await until('the form is sent', () => fileOf('sent'));
    expect(new URLSearchParams(sent).get('text')).toBe(TEXT);
    expect((await found(BLUE, [])).width).toBeGreaterThan(1_000);
    await api.run(computerId, [{ press: ['alt', 'F4'] }]);
    await until('the browser is closed', async () => (colouredBox(await seen(), BLUE) === null ? true : undefined));
  });

  it.each([
    ['Anthropic’s SDK, one action at a time', 'Grüße', () => new AnthropicOperator(service, models, false)],
    ['Anthropic’s SDK, as a batch of its toolset', '你好', () => new AnthropicOperator(service, models, true)],
    ['OpenAI’s SDK', '🚀🧭', () => new OpenaiOperator(service, models)],
  ])('does what the objects of %s say, unchanged', async (name, word, operator) => {
    const file = `${name.length}.txt`;
    const [before, after] = await typed(operator(), computerId, `echo '${word}' > ${file}`, file, `${word}\n`);
    expectText(before, after);
  });

  it('is made, seen, operated and deleted by a client of MCP alone', async () => {
    const made = JSON.parse(await tools.text('create_computer', { end_user_id: 'model', display: SIZE })) as Record<string, string>;
    expect(made).toMatchObject({ end_user_id: 'model', status: 'awake' });
    const { computer_id: id = '' } = made;
    const [shot] = await tools.call('get_computer_screenshot', { computerId: id });
    expect(shot).toMatchObject({ type: 'image', mimeType: 'image/png' });
    expect(await decoded(Buffer.from(shot?.data ?? '', 'base64'))).toMatchObject(SIZE);
    const [before, after] = await typed(tools, id, 'echo hello > note.txt', 'note.txt', 'hello\n');
    expectText(before, after);
    expect(await tools.text('download_computer_file', { computerId: id, path: 'note.txt' })).toBe('hello\n');
    const ran = JSON.parse(await tools.text('run_computer_command', { computerId: id, command: 'cat note.txt; echo $DISPLAY' })) as object;
    expect(ran).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^hello\n:\d+\n$/) });
    expect(JSON.parse(await tools.text('sleep_computer', { computerId: id }))).toMatchObject({ status: 'asleep' });
    expect(await tools.text('download_computer_file', { computerId: id, path: 'note.txt' })).toBe('hello\n');
    expect(JSON.parse(await tools.text('get_computer', { computerId: id }))).toMatchObject({ status: 'awake' });
    expect(await tools.text('list_computer_history', { computerId: id })).toContain('ComputerActed');
    expect(await tools.text('delete_computer', { computerId: id })).toBe('Done.');
  });

  it('does what the guide says, command by command', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'mooring-guide-'));
    try {
      const { url, api_key: key } = service.firstRun;
      const env = { ...process.env, MOORING_URL: url, MOORING_API_KEY: key };
      const script = ['set -euo pipefail', ...guide].join('\n');
      const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: folder, env, timeout: 300_000 });
      expect(stdout).not.toContain('"code"');
      expect(stdout).toMatch(/^hello$/m);
      const answers = ['[true,"left_click"]', '[true,"key"]', '[true,"click","keypress","scroll"]', '"stdout":"6 note.txt\\n"'];
      for (const said of [...answers, '"people.csv"', '/viewer/', '"closed":1', '["asleep"', '["awake"', '"wakes":2'])
        expect(stdout).toContain(said);
      const [before, after] = await Promise.all(['before.png', 'after.png'].map((name) => decoded(readFileSync(join(folder, name)))));
      expect(changedBox(before as Picture, after as Picture, BAR)?.width).toBeGreaterThan(500);
      expect((await service.call('GET', routes('?end_user_id=user_42'))).body).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}
