import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { PacketTables } from './packet-tables.ts';

/** Returns tables of a kernel that refuses some scripts, and the scripts that it was given. */
function tablesWhere(refuses: (script: string, at: number) => Error | null) {
  const scripts: string[] = [];
  const run = async (script: string): Promise<string> => {
    scripts.push(script);
    const refusal = refuses(script, scripts.length);
    if (refusal !== null) throw refusal;
    return 'counters';
  };
  return { tables: new PacketTables({ run }, 'abc'), scripts };
}

const unsupported = new RuntimeRefused('nft ended with 1: Operation not supported');

describe('the rules of agents', () => {
  it('are loaded as one transaction', async () => {
    const { tables, scripts } = tablesWhere(() => null);
    expect(await tables.load('egress\n', 'links\n')).toEqual({ printed: 'counters', linkLack: null });
    expect(scripts).toEqual(['egress\nlinks\n']);
  });

  it('are created again if something else took their place', async () => {
    const { tables, scripts } = tablesWhere((_, at) => (at === 1 ? unsupported : null));
    expect(await tables.load('egress\n', 'links\n')).toEqual({ printed: 'counters', linkLack: null });
    const removed = ['inet', 'ip', 'bridge'].map(
      (family) => `add table ${family} mooring_abc
delete table ${family} mooring_abc
`,
    );
    expect(scripts[1]).toBe(`${removed.join('')}egress
links
`);
  });

  it('are loaded without those of links on a kernel without rules for bridges, which is reported and retried now and then', async () => {
    const { tables, scripts } = tablesWhere((script) => (script.includes('links') ? unsupported : null));
    for (let load = 0; load < 11; load += 1)
      expect(await tables.load('egress\n', 'links\n')).toEqual({ printed: 'counters', linkLack: unsupported.message });
    expect(scripts.filter((script) => script.includes('links'))).toHaveLength(2);
    expect(scripts.filter((script) => script === 'egress\n')).toHaveLength(11);
    await tables.load('egress\n', 'links\n');
    expect(scripts.filter((script) => script.includes('links'))).toHaveLength(4);
  });

  it('are complete at the next load after a failed one', async () => {
    let hasNft = false;
    const { tables } = tablesWhere(() => (hasNft ? null : new RuntimeRefused('this machine has no nft')));
    await expect(tables.load('egress\n', 'links\n')).rejects.toThrow('this machine has no nft');
    hasNft = true;
    expect(await tables.load('egress\n', 'links\n')).toEqual({ printed: 'counters', linkLack: null });
  });

  it('do not count as unsupported while the engine is unavailable', async () => {
    let isAway = true;
    const { tables, scripts } = tablesWhere(() => (isAway ? new RuntimeUnavailable(new Error('away')) : null));
    await expect(tables.load('egress\n', 'links\n')).rejects.toThrow(RuntimeUnavailable);
    isAway = false;
    expect(await tables.load('egress\n', 'links\n')).toEqual({ printed: 'counters', linkLack: null });
    expect(scripts).toEqual(['egress\nlinks\n', 'egress\nlinks\n']);
  });
});
