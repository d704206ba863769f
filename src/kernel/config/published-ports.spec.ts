import { readConfig } from './read-config.ts';

const clients = { MOORING_AGENT_CLIENTS: '10.0.0.7, 10.0.1.0/24' };

describe('the ports that are published for agents', () => {
  it('are on one address, open to the named clients', () => {
    const config = readConfig({ MOORING_AGENT_BIND_ADDRESS: '10.0.0.5', ...clients });
    expect(config).toMatchObject({ agentBindAddress: '10.0.0.5', agentPorts: '20000-29999', agentClients: ['10.0.0.7', '10.0.1.0/24'] });
    expect(readConfig({}).agentBindAddress).toBeNull();
  });

  it('are never on all addresses of a machine', () => {
    for (const address of ['0.0.0.0', '::', '255.255.255.255', '224.0.0.1', 'builder', '10.0.0.0/8', '0'])
      expect(() => readConfig({ MOORING_AGENT_BIND_ADDRESS: address, ...clients })).toThrow('MOORING_AGENT_BIND_ADDRESS must be one');
  });

  it('are never open to every address', () => {
    expect(() => readConfig({ MOORING_AGENT_BIND_ADDRESS: '10.0.0.5' })).toThrow('MOORING_AGENT_CLIENTS must name');
    for (const range of ['0.0.0.0/0', '::/0', 'everybody', '10.0.0.7:80'])
      expect(() => readConfig({ MOORING_AGENT_CLIENTS: range })).toThrow('MOORING_AGENT_CLIENTS must be');
    expect(readConfig({ MOORING_AGENT_BIND_ADDRESS: '127.0.0.2' }).agentClients).toEqual([]);
  });

  it('are of a range that programs may listen on', () => {
    expect(readConfig({ MOORING_AGENT_PORTS: '1024-65535' }).agentPorts).toBe('1024-65535');
    for (const range of ['80-90', '20000', '30000-20000', '20000-70000', '20000-29999; accept'])
      expect(() => readConfig({ MOORING_AGENT_PORTS: range })).toThrow('MOORING_AGENT_PORTS must be');
  });
});
