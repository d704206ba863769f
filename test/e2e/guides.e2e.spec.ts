import { execFile, execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
/** The guides in the order in which a newcomer follows them: each starts from the tree that the ones before it leave. */
const guides = ['adding-an-event', 'adding-an-endpoint'];
/** A whole check of the types takes half a minute on a quiet machine, and several on a busy one. */
const CHECKS_MS = 1_200_000;
/** The file from which the next check of the types learns what it need not look at again. */
const TYPES = '.types.tsbuildinfo';

interface Step {
  title: string;
  diffs: string[];
  commands: string[];
  /** The command that fails if the step is left out, and a part of what it prints. */
  leftOut: { command: string; says: string } | null;
}

/** Returns the steps of a guide: its sections whose titles begin with a number. */
function stepsOf(guide: string): Step[] {
  const text = readFileSync(join(root, 'docs', `${guide}.md`), 'utf8');
  const blocks = (section: string, language: string) =>
    [...section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, block = '']) => block);
  return text
    .split(/^(?=## )/m)
    .filter((section) => /^## \d+\. /.test(section))
    .map((section) => {
      const [, command, says] = /^Left out: `(.+?)` fails with `(.+?)`\.$/m.exec(section) ?? [];
      return {
        title: section.slice(3, section.indexOf('\n')),
        diffs: blocks(section, 'diff'),
        commands: blocks(section, 'sh').flatMap((block) => block.trim().split('\n')),
        leftOut: command === undefined || says === undefined ? null : { command, says },
      };
    });
}

/** A copy of the tree in which steps are taken. It shares the installed packages. */
class Copy {
  readonly folder = mkdtempSync(join(tmpdir(), 'mooring-guide-'));

  constructor() {
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
    for (const path of listed.split('\0').filter((name) => name !== '' && existsSync(join(root, name))))
      cpSync(join(root, path), join(this.folder, path));
    symlinkSync(join(root, 'node_modules'), join(this.folder, 'node_modules'));
  }

  apply(steps: Step[]): void {
    for (const { title, diffs } of steps)
      for (const diff of diffs)
        try {
          execFileSync('git', ['apply', '-p0', '-'], { cwd: this.folder, input: diff, stdio: 'pipe' });
        } catch (error) {
          throw new Error(`The difference of "${title}" does not fit the tree.`, { cause: error });
        }
  }

  /** Runs a command as a reader types it. Returns what it prints, and whether it succeeded. */
  run(command: string): Promise<{ printed: string; succeeded: boolean }> {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(JEST_|UPDATE_GOLDEN|npm_)/.test(name));
    const options = { cwd: this.folder, env: Object.fromEntries(inherited), maxBuffer: 64 * 1024 * 1024 };
    return new Promise((done) => {
      execFile('bash', ['-c', command], options, (error, stdout, stderr) => done({ printed: stdout + stderr, succeeded: error === null }));
    });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

describe.each(guides)('docs/%s.md', (guide) => {
  const before = guides.slice(0, guides.indexOf(guide)).flatMap(stepsOf);
  const steps = stepsOf(guide);
  const [check] = steps.slice(-1);
  const copies: Copy[] = [];
  const copied = (): Copy => {
    const copy = new Copy();
    copies.push(copy);
    return copy;
  };
  let whole: Copy;

  afterAll(() => copies.forEach((copy) => copy.remove()));

  it('ends in checks, and says of every other step what fails without it', () => {
    expect(check?.commands).not.toEqual([]);
    expect(steps.filter(({ leftOut }) => leftOut === null)).toEqual([check]);
  });

  it(
    'followed to the letter passes its checks',
    async () => {
      whole = copied();
      whole.apply(before);
      whole.apply(steps);
      for (const command of steps.flatMap(({ commands }) => commands)) {
        const { printed, succeeded } = await whole.run(command);
        expect({ command, printed: succeeded ? '' : printed }).toEqual({ command, printed: '' });
      }
    },
    CHECKS_MS,
  );

  it.each(steps.slice(0, -1))(
    'fails without "$title"',
    async (left) => {
      const copy = copied();
      if (existsSync(join(whole.folder, TYPES))) cpSync(join(whole.folder, TYPES), join(copy.folder, TYPES));
      copy.apply(before);
      copy.apply(steps.filter((step) => step !== left));
      const { printed, succeeded } = await copy.run(left.leftOut?.command ?? '');
      expect(succeeded).toBe(false);
      expect(printed).toContain(left.leftOut?.says);
      copy.remove();
    },
    CHECKS_MS,
  );
});
