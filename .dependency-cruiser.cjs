/** The rooms of src/ by floor: a room imports only from lower floors, and only through the other room's index.ts. */
const floors = [
  [],
  ['accounts', 'api-keys', 'secrets', 'templates'],
  ['sandboxes'],
  ['agents'],
  ['messages', 'environment', 'custom-files', 'logs', 'traffic'],
  ['deployments', 'files', 'webhooks', 'exec'],
  ['history', 'commands'],
  ['computers'],
  ['provisioning', 'subscriptions', 'admin', 'operations'],
  ['mcp'],
];
const rooms = floors.flat();
const anyRoom = `^src/(${rooms.join('|')})/`;
/** What other features may import: the vocabulary (messages, views, rules) from index.ts, what they inject from services.ts. */
const frontDoors = '^src/[^/]+/(index|services)\\.ts$';
/** The rules and ids that all kinds of sandboxes share. Deciders import pure files only, so these are imported by their own names. */
const sharedRules = '^src/sandboxes/(lifecycle/[^/]+\\.decider|sandbox-id)\\.ts$';
const notShipped = '[.-](spec|contract|probe)\\.ts$';
const npm = (name) => `(^|node_modules/)(@types/)?${name}(/|$)`;

const rule = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });

/** One rule a floor: to the same floor or a higher one there is no way. */
const floorRules = floors.slice(1).flatMap((own, index) => {
  const level = index + 1;
  const notBelow = floors.slice(level).flat();
  return own.map((room) => {
    const others = notBelow.filter((other) => other !== room);
    return rule(
      `floor-${level}-${room}`,
      `${room} is on floor ${level} and imports only from the floors below it.`,
      { path: `^src/${room}/` },
      { path: `^src/(${others.join('|')})/` },
    );
  });
});

const houseRules = [
  rule('no-circles', 'Types included: a circle cannot be read, tested or moved in parts.', {}, { circular: true }),
  rule(
    'room-without-a-floor',
    'A new folder of src/ needs its place in the table above.',
    {},
    { path: '^src/[^/]+/', pathNot: [anyRoom, '^src/platform/'] },
  ),
  rule('platform-knows-no-feature', 'The platform is below every feature.', { path: '^src/platform/' }, { path: anyRoom }),
  rule(
    'front-door',
    'Features meet at index.ts and, for what is injected, at services.ts.',
    { path: anyRoom, pathNot: [notShipped, '\\.module\\.ts$'] },
    { path: anyRoom, pathNot: ['^src/$1/', frontDoors, sharedRules] },
  ),
  rule(
    'front-door-of-modules',
    'A module may also import the module of another feature.',
    { path: `${anyRoom}[^/]+\\.module\\.ts$` },
    { path: anyRoom, pathNot: ['^src/$1/', frontDoors, '\\.module\\.ts$'] },
  ),
  rule(
    'front-door-of-tests',
    'A test may also use the modules of other features, and their rules, which are pure.',
    { path: `${anyRoom}.*${notShipped}` },
    { path: anyRoom, pathNot: ['^src/$1/', frontDoors, '\\.(module|decider)\\.ts$'] },
  ),
  rule(
    'own-front-door',
    'Inside its own feature a file is imported by its own name.',
    { path: anyRoom },
    { path: '^src/$1/(index|services)\\.ts$' },
  ),
  rule(
    'table-of-contents',
    'app.module.ts and main.ts see of a feature its front door and its module.',
    { path: '^src/[^/]+\\.ts$' },
    { path: anyRoom, pathNot: '/(index|services|[^/]+\\.module)\\.ts$' },
  ),
  rule(
    'nobody-imports-the-top',
    'app.module.ts and main.ts stand above everything; only the tests, and the tools beside main.ts, start them.',
    { path: '^src/.+/', pathNot: notShipped },
    { path: '^src/(main|app\\.module)\\.ts$' },
  ),
  rule(
    'no-tests-in-the-product',
    'What is shipped needs nothing of the tests and benchmarks.',
    { path: '^src/', pathNot: notShipped },
    { path: ['^(test|bench)/', '\\.spec\\.ts$'] },
  ),
];

/**
 * The folders inside of a room by floor: a folder imports only from lower floors, so there is no circle of folders. What stands beside the
 * folders puts them together.
 */
const folderFloors = {
  platform: [
    ['async', 'config', 'context', 'errors', 'observability'],
    ['database'],
    ['agent-protocol', 'crypto', 'event-store', 'git', 'leases'],
    ['runtime'],
    ['projections', 'projects'],
    ['sagas'],
    ['http'],
  ],
  'platform/http': [['requests'], ['responses'], ['idempotency'], ['auth'], ['docs', 'health']],
  'platform/projections': [['tables'], ['rebuild'], ['live', 'verify']],
  'platform/event-store': [['following'], ['postgres', 'eventstoredb', 'states']],
  'platform/runtime/docker': [['engine'], ['image-sources'], ['networks', 'volumes'], ['builder'], ['containers', 'images'], ['channels']],
  accounts: [['aggregate', 'credentials']],
  sandboxes: [['lifecycle'], ['activity'], ['reconciliation'], ['volumes']],
  agents: [['aggregate'], ['activity', 'fields', 'policies']],
  messages: [['conversations'], ['delivery', 'intake']],
  logs: [['output'], ['entries'], ['retention'], ['capture']],
  deployments: [['records', 'sources'], ['images'], ['containers']],
  admin: [['events', 'keys', 'projections', 'runtime', 'work']],
  subscriptions: [['delivery']],
  computers: [
    ['actions', 'aggregate', 'rfb', 'screen'],
    ['driver', 'fields', 'rows', 'variables', 'watch'],
    ['history', 'live', 'memory', 'usage'],
    ['containers', 'viewer'],
  ],
  history: [['entries'], ['audit', 'time-travel'], ['explain']],
};
/** In these rooms a port, or the rule of ids, stands beside the folders, which import it. */
const withPorts = ['platform', 'platform/projections', 'platform/event-store', 'sandboxes'];
const folderRules = Object.entries(folderFloors).flatMap(([parent, levels]) => {
  const name = parent.replaceAll('/', '-');
  const folders = `^src/${parent}/(${levels.flat().join('|')})/`;
  return [
    rule(
      `${name}-folder-without-a-floor`,
      `A new folder of ${parent} needs its place in the table above.`,
      {},
      { path: `^src/${parent}/[^/]+/`, pathNot: folders },
    ),
    ...(withPorts.includes(parent)
      ? []
      : [
          rule(
            `${name}-below-its-top`,
            `A folder of ${parent} imports nothing that stands beside the folders.`,
            { path: folders, pathNot: notShipped },
            { path: `^src/${parent}/[^/]+$` },
          ),
        ]),
    ...levels.flatMap((own, level) =>
      own.map((folder) => {
        const others = levels
          .slice(level)
          .flat()
          .filter((other) => other !== folder);
        return rule(
          `${name}-${folder}`,
          `${folder} imports only from the folders of ${parent} below it.`,
          { path: `^src/${parent}/${folder}/`, pathNot: notShipped },
          { path: `^src/${parent}/(${others.join('|')})/` },
        );
      }),
    ),
  ];
});

const roleRules = [
  rule(
    'deciders-are-pure',
    'Deciders and events use nothing at run time but each other, refusals, event definitions and the ids of sandboxes.',
    { path: '\\.(decider|events)\\.ts$' },
    {
      path: '.',
      pathNot: [
        '\\.(decider|events)\\.ts$',
        '^src/platform/(errors/refusal|event-store/event-definition)\\.ts$',
        '^src/sandboxes/sandbox-id\\.ts$',
      ],
      dependencyTypesNot: ['type-only'],
    },
  ),
  rule(
    'runtime-port',
    'Only sagas and services touch containers; others may name its types, and the rules of the paths in them.',
    { path: anyRoom, pathNot: ['\\.(saga|service|module)\\.ts$', notShipped] },
    { path: '^src/platform/runtime/', pathNot: '/file-paths\\.ts$', dependencyTypesNot: ['type-only'] },
  ),
  rule(
    'entities-in-projections',
    'Rows are read in projections; TypeORM learns of tables from platform/database.',
    { path: anyRoom, pathNot: ['\\.projection\\.ts$', notShipped] },
    { path: [npm('typeorm'), '^src/platform/database/entities\\.ts$'] },
  ),
  rule(
    'controllers-are-signatures',
    'A controller speaks to the buses and to services of its own feature.',
    { path: '\\.controller\\.ts$' },
    { path: ['^src/platform/event-store/', '\\.(decider|saga)\\.ts$', '/services\\.ts$'] },
  ),
];

/** The rest of the program knows the port; specs and benchmarks may look behind it. */
const adapters = [
  ['runtime', 'docker'],
  ['runtime', 'local'],
  ['event-store', 'postgres'],
  ['event-store', 'eventstoredb'],
];
const adapterRules = adapters.map(([port, adapter]) =>
  rule(
    `adapter-${adapter}`,
    `${port}/${adapter} is imported by ${port}.module.ts alone.`,
    {
      path: '^(src|cli)/',
      pathNot: [`^src/platform/${port}/${adapter}/`, `^src/platform/${port}/${port}\\.module\\.ts$`, notShipped],
    },
    { path: `^src/platform/${port}/${adapter}/` },
  ),
);
const libraryRules = [
  ['dockerode', 'runtime/docker'],
  ['@eventstore/db-client', 'event-store/eventstoredb'],
].map(([name, folder]) =>
  rule(
    `only-in-${folder.split('/')[1]}`,
    `${name} is named in ${folder} alone.`,
    { path: '^(src|cli)/', pathNot: [`^src/platform/${folder}/`, '\\.spec\\.ts$'] },
    { path: npm(name) },
  ),
);

module.exports = {
  forbidden: [...houseRules, ...floorRules, ...folderRules, ...roleRules, ...adapterRules, ...libraryRules],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    // Imports of types count too.
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] },
  },
};
