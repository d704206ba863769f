import { execFile, execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { TypeCheck } from '../support/type-check.ts';

const root = resolve(import.meta.dirname, '../..');
/** The guides in the order in which a newcomer follows them: each starts from the tree that the ones before it leave. */
const guides = ['adding-an-event', 'adding-an-endpoint'];
/** The checks of a guide take two minutes on a quiet machine, and many on a busy one. */
const CHECKS_MS = 1_200_000;
/** The command whose errors `TypeCheck` finds without running it. */
const TYPE_CHECK = 'npm run typecheck';

interface Step {
  title: string;
  diffs: string[];
  commands: string[];
  /** The command that fails if the step is left out, and a part of what it prints. */
  leftOut: { command: string; says: string } | null;
}

/** Returns the steps of a guide: its sections whose titles begin with a number. */
function stepsOf(guide: string): Step[] {
  const text = readFileSync(join(root, 'docs/guides', `${guide}.md`), 'utf8');
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

/** Returns the TypeScript files that the steps change. */
function sourcesOf(steps: Step[]): string[] {
  const changed = steps.flatMap(({ diffs }) =>
    diffs.flatMap((diff) => [...diff.matchAll(/^\+\+\+ (.+\.ts)$/gm)].map(([, path = '']) => path)),
  );
  return [...new Set(changed)];
}

/**
 * A copy of the repository in which the steps are carried out. It shares the installed packages, and its states are commits in a Git
 * repository of its own.
 */
class Copy {
  readonly folder = mkdtempSync(join(tmpdir(), 'mooring-guide-'));

  constructor() {
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
    for (const path of listed.split('\0').filter((name) => name !== '' && existsSync(join(root, name))))
      cpSync(join(root, path), join(this.folder, path));
    symlinkSync(join(root, 'node_modules'), join(this.folder, 'node_modules'));
    this.git(['init', '--quiet']);
    appendFileSync(join(this.folder, '.git/info/exclude'), '/node_modules\n');
  }

  apply(steps: Step[]): void {
    for (const { title, diffs } of steps)
      for (const diff of diffs)
        try {
          this.git(['apply', '-p0', '-'], diff);
        } catch (error) {
          throw new Error(`The difference of "${title}" does not fit the tree.`, { cause: error });
        }
  }

  /** Keeps the state of the tree. Returns its name for `restore`. */
  keep(): string {
    this.git(['add', '--all']);
    return this.git(['write-tree']);
  }

  /** Restores a state. Files that git ignores stay, so that the next type check and build are incremental. */
  restore(state: string): void {
    this.git(['read-tree', '--reset', '-u', state]);
    this.git(['clean', '-d', '--force', '--quiet']);
  }

  /** Runs a command as a reader types it. Returns what it prints, and whether it succeeded. */
  run(command: string): Promise<{ printed: string; succeeded: boolean }> {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(JEST_|npm_)/.test(name));
    const options = { cwd: this.folder, env: Object.fromEntries(inherited), maxBuffer: 64 * 1024 * 1024 };
    return new Promise((done) => {
      execFile('bash', ['-c', command], options, (error, stdout, stderr) => done({ printed: stdout + stderr, succeeded: error === null }));
    });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  private git(words: string[], input = ''): string {
    return execFileSync('git', words, { cwd: this.folder, input, encoding: 'utf8', stdio: 'pipe' }).trim();
  }
}

let copy: Copy;
let types: TypeCheck;
/** The state of the tree from which the next guide starts. */
let start: string;

beforeAll(() => {
  copy = new Copy();
  start = copy.keep();
  types = new TypeCheck(copy.folder);
});
afterAll(() => {
  copy.remove();
  types.close();
});

async function passes(commands: string[]): Promise<void> {
  for (const command of commands) {
    const { printed, succeeded } = await copy.run(command);
    expect({ command, printed: succeeded ? '' : printed }).toEqual({ command, printed: '' });
  }
}

it('every guide ends with the same checks, so that one run after the last guide is enough', () => {
  const [first, ...others] = guides.map((guide) => stepsOf(guide).at(-1)?.commands);
  expect(first).not.toEqual([]);
  for (const other of others) expect(other).toEqual(first);
});

describe.each(guides)('docs/guides/%s.md', (guide) => {
  const steps = stepsOf(guide);
  const [check] = steps.slice(-1);
  const files = sourcesOf(steps);
  let followed: string;

  beforeAll(() => {
    copy.restore(start);
    copy.apply(steps);
    followed = copy.keep();
  });
  afterAll(() => {
    start = followed;
  });

  it('names for every step except the checks what fails without it', () => {
    expect(steps.filter(({ leftOut }) => leftOut === null)).toEqual([check]);
  });

  it(
    'followed to the letter passes its checks',
    async () => {
      copy.restore(followed);
      expect(types.errorsIn(files, followed)).toBe('');
      await passes(steps.slice(0, -1).flatMap(({ commands }) => commands));
      followed = copy.keep();
      if (guide === guides.at(-1)) await passes(check?.commands ?? []);
    },
    CHECKS_MS,
  );

  it.each(steps.slice(0, -1))(
    'fails without "$title"',
    async (left) => {
      copy.restore(start);
      copy.apply(steps.filter((step) => step !== left));
      const { command = '', says = '' } = left.leftOut ?? {};
      // Errors of the types in these files are among those that the command prints, and each makes it fail.
      const outcome = command === TYPE_CHECK ? { printed: types.errorsIn(files, copy.keep()), succeeded: false } : await copy.run(command);
      expect(outcome).toEqual({ printed: expect.stringContaining(says), succeeded: false });
    },
    CHECKS_MS,
  );
});
