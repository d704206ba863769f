import { type Imports, importsOf, reachedFrom, type Sources } from './imports.ts';

export interface TierRule {
  name: string;
  /** Returns what breaks the rule, each in one line. */
  breaches: (sources: Sources) => string[];
}

const tiers = ['int', 'docker', 'e2e'];
/** The packages that a unit test does without: those that take long to load, or lead to a server. */
const heavy = /^(@nestjs\/.+|typeorm|pg|dockerode|@eventstore\/db-client)$/;
/** The helpers of tests that need an engine, Git, or the started service. */
const needy = /^test\/support\/(docker-fixture|engine|git-server|images|fake-network|private-engine|service-image|started-service)\.ts$/;
/** Runs a program that a bare machine does not have, or opens the machine's own engine. */
const machineUse = /\b(?:spawn|spawnSync|execFile|execFileSync)\(\s*'(?:busybox|docker|dockerd|git|nft|unshare)'|\bnew Dockerode\(\)/;

export const tierRules: TierRule[] = [
  { name: 'a file of tests has one tier, which its name tells', breaches: misnamed },
  {
    name: 'a unit test reaches neither the framework nor a client of a server',
    breaches: (sources) => chainsTo(sources, ['unit'], (target) => heavy.test(target)),
  },
  {
    name: 'a unit or int test reaches nothing that needs an engine, Git or the started service',
    breaches: (sources) =>
      chainsTo(
        sources,
        ['unit', 'int'],
        (target) => needy.test(target) || (isOfTests(target) && machineUse.test(sources.get(target) ?? '')),
      ),
  },
  {
    name: 'a file of tests imports no other one',
    breaches: (sources) =>
      [...importsOf(sources)].flatMap(([path, targets]) => targets.filter(isSpec).map((target) => `${path} > ${target}`)),
  },
];

function isSpec(path: string): boolean {
  return /\.(spec|test)\.[cm]?[jt]sx?$/.test(path);
}

/** Returns true for files that are there for tests alone; the product may run programs, and a test may leave them alone. */
function isOfTests(path: string): boolean {
  return path.startsWith('test/') || /\.(spec|contract|bed|probe)\.ts$/.test(path);
}

/** Returns the tier that jest.config.js knows by the name of the file. */
function tierOf(path: string): string {
  return tiers.find((tier) => path.endsWith(`.${tier}.spec.ts`)) ?? 'unit';
}

/** Looks at the names of all files: one that jest does not take for tests would never be run. */
function misnamed(sources: Sources): string[] {
  return [...sources.keys()].filter(isSpec).flatMap((path) => {
    if (!/^(src|test)\/.+\.spec\.ts$/.test(path)) return [`${path} is run in no tier`];
    const words = path
      .slice(path.lastIndexOf('/') + 1)
      .split('.')
      .slice(1, -2);
    const named = words.filter((word) => tiers.includes(word) || word === 'unit');
    const isClear = named.length === 0 || (named.length === 1 && tiers.includes(words.at(-1) ?? ''));
    return isClear ? [] : [`${path} names ${named.join(' and ')}`];
  });
}

function chainsTo(sources: Sources, of: string[], isForbidden: (target: string) => boolean): string[] {
  const imports: Imports = importsOf(sources);
  return [...sources.keys()]
    .filter((path) => isSpec(path) && of.includes(tierOf(path)))
    .flatMap((path) => {
      const found = [...reachedFrom(path, imports)].find(([target]) => isForbidden(target));
      return found ? [found[1].join(' > ')] : [];
    });
}
