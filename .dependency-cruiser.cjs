/** The modules of src/ in layers, the lowest first: a module imports only from lower layers. main.ts, app.module.ts and bin/ are above all. */
const layers = [
  ['kernel'],
  ['agent-protocol', 'desktop', 'postgres'],
  ['crypto'],
  ['eventsourcing', 'runtime'],
  ['builds', 'sandboxes'],
  ['http'],
  ['features'],
  ['bootstrap', 'operations'],
];
/** The features in layers, the lowest first. */
const featureLayers = [
  ['accounts', 'api-keys', 'secrets', 'templates'],
  ['agents'],
  ['messages', 'environment', 'custom-files', 'logs', 'traffic'],
  ['deployments', 'files', 'webhooks', 'exec'],
  ['history', 'commands'],
  ['computers'],
  ['provisioning', 'subscriptions', 'admin'],
  ['mcp'],
];
/** The folders inside of modules in layers, the lowest first: so no two folders import each other. What lies beside them puts them together. */
const folderLayers = {
  kernel: [['async', 'context', 'errors', 'limits', 'network', 'observability', 'text'], ['config']],
  postgres: [['embedded', 'migrations'], ['database'], ['leases']],
  'agent-protocol': [['a2a', 'langgraph', 'mooring', 'openai']],
  desktop: [['actions', 'rfb', 'screen'], ['driver']],
  eventsourcing: [['event-store'], ['log'], ['aggregates'], ['projections'], ['sagas']],
  'eventsourcing/event-store': [['postgres', 'eventstoredb']],
  'eventsourcing/projections': [['tables'], ['rebuild'], ['live', 'verify']],
  runtime: [['channel'], ['docker', 'local']],
  'runtime/docker': [['engine'], ['image-sources'], ['networks', 'volumes'], ['builder'], ['containers', 'images'], ['channels']],
  builds: [['git'], ['dockerfiles', 'projects', 'run-settings']],
  http: [['requests'], ['limits', 'responses'], ['idempotency'], ['auth'], ['docs', 'health'], ['server']],
  sandboxes: [['lifecycle'], ['activity'], ['reconciliation'], ['volumes']],
  'features/accounts': [['aggregate', 'credentials']],
  'features/agents': [['aggregate'], ['activity', 'fields', 'policies', 'running']],
  'features/messages': [['conversations'], ['delivery', 'intake']],
  'features/logs': [['output'], ['entries'], ['retention'], ['capture']],
  'features/deployments': [['records', 'sources'], ['images'], ['containers']],
  'features/admin': [['events', 'keys', 'projections', 'runtime', 'work']],
  'features/subscriptions': [['delivery']],
  'features/computers': [
    ['aggregate'],
    ['fields', 'rows', 'variables', 'watch'],
    ['history', 'live', 'memory', 'usage'],
    ['containers', 'viewer'],
  ],
  'features/history': [['entries'], ['audit', 'time-travel'], ['explain']],
};
/** The folders of these import what lies beside them: a port, or what all modules use. */
const withPorts = ['kernel', 'agent-protocol', 'eventsourcing/event-store', 'eventsourcing/projections', 'runtime', 'sandboxes'];

const anyOf = (names) => `(${names.join('|')})`;
const features = featureLayers.flat();
/** What has a public API: features, and the modules on both sides of them that are made alike. */
const withPublicApi = [...features.map((name) => `features/${name}`), 'operations', 'sandboxes'];
const anyWithApi = `^src/${anyOf(withPublicApi)}/`;
const anyFeature = `^src/features/${anyOf(features)}/`;
const infrastructure = layers
  .slice(
    0,
    layers.findIndex((each) => each.includes('features')),
  )
  .flat();
/** What others may import: the vocabulary (messages, views, rules) from index.ts, what they inject from services.ts. */
const publicApi = `^src/${anyOf(withPublicApi)}/(index|services)\\.ts$`;
/** The rules and ids that all kinds of sandboxes share. Deciders import pure files only, so these are imported by their own names. */
const sharedRules = '^src/sandboxes/(lifecycle/[^/]+\\.(decider|rules)|sandbox-id)\\.ts$';
const isTest = '\\.spec\\.ts$';
const npm = (name) => `(^|node_modules/)(@types/)?${name}(/|$)`;

const rule = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });

/** One rule for each member of a table of layers: it imports neither from its own layer nor from a higher one. */
const layerRules = (table, parent, name, comment, leftOut = []) =>
  table.flatMap((own, level) =>
    own.flatMap((member) => {
      const others = table
        .slice(level)
        .flat()
        .filter((other) => other !== member);
      return others.length === 0
        ? []
        : [
            rule(
              `${name}-${member}`,
              comment(member),
              { path: `^${parent}/${member}/`, pathNot: leftOut },
              { path: `^${parent}/${anyOf(others)}/` },
            ),
          ];
    }),
  );

const moduleRules = [
  rule('no-circles', 'Types included: a circle cannot be read, tested or moved in parts.', {}, { circular: true }),
  rule(
    'module-without-a-layer',
    'A new folder of src/ needs its place in the table of layers.',
    {},
    { path: '^src/[^/]+/', pathNot: [`^src/${anyOf(layers.flat())}/`, '^src/bin/'] },
  ),
  rule(
    'feature-without-a-layer',
    'A new feature needs its place in the table of features.',
    {},
    { path: '^src/features/[^/]+/', pathNot: anyFeature },
  ),
  ...layerRules(layers, 'src', 'layer', (module) => `${module} imports only from the layers below it.`, [isTest]),
  ...layerRules(
    featureLayers,
    'src/features',
    'feature-layer',
    (feature) => `${feature} imports only from the features in layers below it.`,
  ),
  rule(
    'infrastructure-knows-no-feature',
    'What features stand on is below every feature, and so are its tests.',
    { path: `^src/${anyOf(infrastructure)}/` },
    { path: '^src/(bootstrap|features|operations)/' },
  ),
  rule(
    'public-api',
    'Features meet at index.ts and, for what is injected, at services.ts.',
    { path: anyWithApi, pathNot: [isTest, '\\.module\\.ts$'] },
    { path: anyWithApi, pathNot: ['^src/$1/', publicApi, sharedRules] },
  ),
  rule(
    'public-api-for-modules',
    'A Nest module may also import the Nest module of another feature.',
    { path: `${anyWithApi}[^/]+\\.module\\.ts$` },
    { path: anyWithApi, pathNot: ['^src/$1/', publicApi, '\\.module\\.ts$'] },
  ),
  rule(
    'public-api-for-tests',
    'A test may also use the Nest modules of other features, and their rules, which are pure.',
    { path: `${anyWithApi}.*${isTest}` },
    { path: anyWithApi, pathNot: ['^src/$1/', publicApi, '\\.(module|decider|rules)\\.ts$'] },
  ),
  rule(
    'own-public-api',
    'Inside its own feature a file is imported by its own name.',
    { path: anyWithApi },
    { path: '^src/$1/(index|services)\\.ts$' },
  ),
  rule(
    'table-of-contents',
    'What starts the service sees of a feature its public API and its Nest module.',
    { path: ['^src/[^/]+\\.ts$', '^src/(bin|bootstrap|features)/[^/]+\\.ts$'] },
    { path: anyWithApi, pathNot: '/(index|services|[^/]+\\.module)\\.ts$' },
  ),
  rule(
    'nobody-imports-the-top',
    'app.module.ts and main.ts stand above everything; only the tests, and the executables in bin/, start them.',
    { path: '^src/.+/', pathNot: [isTest, '^src/bin/'] },
    { path: '^src/(main|app\\.module)\\.ts$' },
  ),
  rule('executables-are-run', 'Nobody imports an executable.', { pathNot: '^src/bin/' }, { path: '^src/bin/' }),
  rule(
    'no-tests-in-the-product',
    'What is shipped needs nothing of the tests and benchmarks.',
    { path: '^src/', pathNot: isTest },
    { path: ['^(test|bench)/', isTest] },
  ),
  rule(
    'contracts-in-test',
    'The contract of a port is a test: it lies in test/contracts.',
    {},
    { path: '^src/.*\\.(contract|probe)\\.ts$' },
  ),
];

const folderRules = Object.entries(folderLayers).flatMap(([parent, table]) => {
  const name = parent.replaceAll('/', '-');
  const folders = `^src/${parent}/${anyOf(table.flat())}/`;
  return [
    rule(
      `${name}-folder-without-a-layer`,
      `A new folder of ${parent} needs its place in the table of folders.`,
      {},
      { path: `^src/${parent}/[^/]+/`, pathNot: folders },
    ),
    ...(withPorts.includes(parent)
      ? []
      : [
          rule(
            `${name}-below-its-top`,
            `A folder of ${parent} imports nothing that lies beside the folders.`,
            { path: folders, pathNot: isTest },
            { path: `^src/${parent}/[^/]+$` },
          ),
        ]),
    ...layerRules(table, `src/${parent}`, name, (folder) => `${folder} imports only from the folders of ${parent} below it.`, [isTest]),
  ];
});

const roleRules = [
  rule(
    'deciders-are-pure',
    'Deciders, events and errors use nothing at run time but each other, refusals, event definitions and the ids of sandboxes.',
    { path: '\\.(decider|rules|errors|events)\\.ts$' },
    {
      path: '.',
      pathNot: [
        '\\.(decider|rules|errors|events)\\.ts$',
        '^src/kernel/errors/problem-error\\.ts$',
        '^src/eventsourcing/event-store/event-definition\\.ts$',
        '^src/sandboxes/sandbox-id\\.ts$',
      ],
      dependencyTypesNot: ['type-only'],
    },
  ),
  rule(
    'runtime-port',
    'Only sagas and services touch containers; others may name its types, and the rules of the paths in them.',
    { path: anyWithApi, pathNot: ['\\.(saga|service|module)\\.ts$', isTest] },
    { path: '^src/runtime/', pathNot: '/file-paths\\.ts$', dependencyTypesNot: ['type-only'] },
  ),
  rule(
    'entities-in-projections',
    'Rows are read in projections; TypeORM learns of tables from postgres/database.',
    { path: anyWithApi, pathNot: ['\\.projection\\.ts$', isTest] },
    { path: [npm('typeorm'), '^src/postgres/database/entities\\.ts$'] },
  ),
  rule(
    'controllers-are-signatures',
    'A controller speaks to the buses and to services of its own feature.',
    { path: '\\.controller\\.ts$' },
    { path: ['^src/eventsourcing/(aggregates|event-store|log)/', '\\.(decider|rules|saga)\\.ts$', '/services\\.ts$'] },
  ),
];

/** The rest of the program knows the port; specs and benchmarks may look behind it. */
const adapters = [
  ['runtime/docker', 'runtime/runtime'],
  ['runtime/local', 'runtime/runtime'],
  ['eventsourcing/event-store/postgres', 'eventsourcing/event-store'],
  ['eventsourcing/event-store/eventstoredb', 'eventsourcing/event-store'],
];
const adapterRules = adapters.map(([folder, module]) =>
  rule(
    `adapter-${folder.split('/').at(-1)}`,
    `${folder} is imported by ${module}.module.ts alone.`,
    { path: '^(src|cli)/', pathNot: [`^src/${folder}/`, `^src/${module}\\.module\\.ts$`, isTest] },
    { path: `^src/${folder}/` },
  ),
);
const libraryRules = [
  ['dockerode', 'runtime/docker'],
  ['@eventstore/db-client', 'eventsourcing/event-store/eventstoredb'],
].map(([name, folder]) =>
  rule(
    `only-in-${folder.split('/').at(-1)}`,
    `${name} is named in ${folder} alone.`,
    { path: '^(src|cli)/', pathNot: [`^src/${folder}/`, isTest] },
    { path: npm(name) },
  ),
);

module.exports = {
  forbidden: [...moduleRules, ...folderRules, ...roleRules, ...adapterRules, ...libraryRules],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    // Imports of types count too.
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] },
  },
};
