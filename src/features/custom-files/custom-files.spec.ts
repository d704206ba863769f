import fc from 'fast-check';
import { posix } from 'node:path';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { absolutePathOf, isWithin, pathProblem, locationProblem, targetDirProblem } from './file-locations.rules.ts';
import {
  CUSTOM_FILE_BYTES_MAX,
  CUSTOM_FILES_MAX,
  type CustomFile,
  type CustomFileCommand,
  customFilesDecider,
} from './custom-files.decider.ts';
import { customFileEvents } from './custom-files.events.ts';
import { hostileDirectories, hostilePaths } from '../../../test/support/hostile-places.ts';

const NOON = new Date('2026-03-01T12:00:00.000Z');
const accountId = 'acme';
let ids = 0;
const file = (path: string, more: Partial<CustomFile> = {}) => ({
  path,
  targetDir: '/service/scripts',
  size: 3,
  executable: true,
  runOnDeploy: true,
  contentId: `content-${(ids += 1)}`,
  ...more,
});
const provisioned = customFilesDecider.evolve(customFilesDecider.initialState(), {
  type: 'AgentProvisioned',
  data: { account_id: accountId },
} as never);

function after(...commands: CustomFileCommand[]) {
  return commands.reduce(
    (state, command) => customFilesDecider.decide(command, state, NOON).reduce(customFilesDecider.evolve, state),
    provisioned,
  );
}
const store = (...files: ReturnType<typeof file>[]): CustomFileCommand => ({ type: 'StoreCustomFiles', accountId, files });
const remove = (path: string): CustomFileCommand => ({
  type: 'RemoveCustomFile',
  accountId,
  location: { path, targetDir: '/service/scripts' },
});
const paths = (state: typeof provisioned) => [...state.files.keys()].map((path) => posix.basename(path));
const fieldOf = (...commands: CustomFileCommand[]) => {
  try {
    after(...commands);
    return null;
  } catch (error) {
    const { code, facts } = error as ProblemError;
    return facts.errors?.[0]?.field ?? code;
  }
};

describe('the custom files of an agent', () => {
  it('keep the order in which they were stored, even if one is replaced', () => {
    const state = after(store(file('b.sh'), file('a.sh')), store(file('c.sh'), file('b.sh', { size: 9 })));
    expect(paths(state)).toEqual(['b.sh', 'a.sh', 'c.sh']);
    expect(state.files.get('/service/scripts/b.sh')).toMatchObject({ size: 9, storedAt: NOON.toISOString() });
    expect(paths(after(store(file('b.sh'), file('a.sh')), remove('b.sh'), store(file('b.sh'))))).toEqual(['a.sh', 'b.sh']);
  });

  it('are the same file if two directories and paths lead to the same location', () => {
    const nested = file('deep/x', { targetDir: '/a' });
    expect(paths(after(store(nested), store(file('x', { targetDir: '/a/deep' }))))).toEqual(['x']);
    expect(fieldOf(store(nested, file('x', { targetDir: '/a/deep' })))).toBe('files[1].path');
  });

  it('are bounded in number and size, and refused as a whole', () => {
    const many = Array.from({ length: CUSTOM_FILES_MAX }, (_, index) => file(`${index}`));
    expect(after(store(...many)).files.size).toBe(CUSTOM_FILES_MAX);
    expect(fieldOf(store(...many), store(file('0'), file('one more')))).toBe('files');
    expect(fieldOf(store(file('a', { size: CUSTOM_FILE_BYTES_MAX })))).toBeNull();
    expect(fieldOf(store(file('a'), file('b', { size: CUSTOM_FILE_BYTES_MAX + 1 })))).toBe('files[1].content');
  });

  it('are never both a file and a directory', () => {
    expect(fieldOf(store(file('a')), store(file('a/b')))).toBe('files[0].path');
    expect(fieldOf(store(file('a/b'), file('a')))).toBe('files[1].path');
    expect(fieldOf(store(file('a.sh'), file('a')))).toBeNull();
  });

  it('belong to the account of the agent, and end with it', () => {
    const other: CustomFileCommand = { type: 'StoreCustomFiles', accountId: 'other', files: [file('a')] };
    expect(fieldOf(other)).toBe('agent_not_found');
    expect(fieldOf(remove('a'))).toBe('file_not_found');
    const deleted = customFilesDecider.evolve(after(store(file('a'))), { type: 'AgentDeletionRequested', data: {} } as never);
    expect(() => customFilesDecider.decide(store(file('a')), deleted, NOON)).toThrow('There is no such agent.');
  });

  it('are removed one by one, by their locations', () => {
    const stored = after(store(file('a'), file('b')));
    expect(customFilesDecider.decide(remove('a'), stored, NOON)).toEqual([
      { type: 'CustomFileRemoved', data: { path: 'a', target_dir: '/service/scripts' } },
    ]);
    expect(fieldOf(store(file('a')), { ...remove('a'), location: { path: 'a', targetDir: '/other' } } as CustomFileCommand)).toBe(
      'file_not_found',
    );
  });

  it('are described by their names and sizes', () => {
    const [event] = customFilesDecider.decide(store(file('a.sh'), file('b')), provisioned, NOON);
    expect(event?.type === 'CustomFilesStored' && customFileEvents.CustomFilesStored.summary(event.data)).toBe(
      'Stored the custom files /service/scripts/a.sh (3 bytes), /service/scripts/b (3 bytes)',
    );
  });
});

describe('the location of a custom file', () => {
  it.each(hostilePaths)('is refused with hostile path %#', (path) => {
    expect(fieldOf(store(file(path)))).toBe('files[0].path');
  });

  it.each(hostileDirectories)('is refused with hostile directory %#', (targetDir) => {
    expect(fieldOf(store(file('a', { targetDir })))).toBe('files[0].target_dir');
  });

  it.each(['a', 'a/b/c.txt', '.env', '...', 'a..b', 'ünïcode', '名前.sh', 'with space', "it's", '$HOME', '-rf', 'a%20b', 'x'.repeat(255)])(
    'may have the path %j',
    (path) => {
      expect(pathProblem(path)).toBeNull();
      expect(targetDirProblem(`/${path.slice(0, 200)}`)).toBeNull();
    },
  );

  it('is within its directory for any path, or is refused', () => {
    const name = fc.oneof(fc.constantFrom('.', '..', '', 'a', '%2e%2e', '\u0000', '．．'), fc.string({ unit: 'binary' }));
    const path = fc.array(name, { maxLength: 5 }).map((names) => names.join('/'));
    fc.assert(
      fc.property(path, path, (given, directory) => {
        const place = { path: given, targetDir: `/${directory}` };
        if (pathProblem(place.path) !== null || targetDirProblem(place.targetDir) !== null || locationProblem(place) !== null) return;
        const absolute = absolutePathOf(place);
        expect(posix.normalize(absolute)).toBe(absolute);
        expect(isWithin(absolute, place.targetDir) && absolute !== place.targetDir).toBe(true);
        for (const reserved of ['/proc', '/sys', '/dev', '/.mooring']) expect(isWithin(absolute, reserved)).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });
});
