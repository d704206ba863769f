/** Returns the commands after which the chain has exactly these rules. `hook` makes it a base chain. */
export const chainCommands = (table: string, name: string, rules: readonly string[], hook = ''): string[] => [
  `add chain ${table} ${name}${hook}`,
  `flush chain ${table} ${name}`,
  ...rules.map((rule) => `add rule ${table} ${name} ${rule}`),
];

/** Returns the commands after which the set has exactly these elements. */
export const setCommands = (table: string, name: string, type: string, elements: readonly string[], flags = ''): string[] => [
  `add set ${table} ${name} { type ${type}; ${flags}}`,
  `flush set ${table} ${name}`,
  ...(elements.length === 0 ? [] : [`add element ${table} ${name} { ${elements.join(', ')} }`]),
];
