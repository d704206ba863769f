import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { portRules, PortRules } from './port-rules.ts';

const ports = { address: '10.0.0.5', ports: '20000-29999', clients: ['10.0.0.7', '10.0.1.0/24'] };

/** Rules whose loads have these outcomes, one after the other, and all later ones the last. */
function rulesWith(...outcomes: (Error | null)[]) {
  const [scripts, told]: [string[], (string | null)[]] = [[], []];
  const run = async (script: string) => {
    scripts.push(script);
    const outcome = outcomes[Math.min(scripts.length, outcomes.length) - 1];
    if (outcome != null) throw outcome;
    return '';
  };
  return { rules: new PortRules({ run }, 'abc', ports, (lack) => told.push(lack)), scripts, told };
}

describe('the rules of ports that are published at an address', () => {
  it('drop packets of others than the clients', () => {
    expect(portRules('abc', ports)).toContain(
      'add rule ip mooring_abc_ports prerouting ip daddr 10.0.0.5 tcp dport 20000-29999 ip saddr != @clients drop',
    );
    expect(portRules('abc', ports)).toContain('add element ip mooring_abc_ports clients { 10.0.0.7, 10.0.1.0/24 }');
  });

  it('are loaded once for all starts within a minute, and again after the engine was unavailable', async () => {
    const { rules, scripts } = rulesWith(null);
    await Promise.all([rules.ensure(), rules.ensure()]);
    await rules.ensure();
    expect(scripts).toHaveLength(1);
    rules.invalidate();
    await rules.ensure();
    expect(scripts).toHaveLength(2);
    rules.close();
  });

  it('let no agent start while they can’t be loaded, which is reported once', async () => {
    const { rules, told } = rulesWith(new RuntimeRefused('no nft'), new RuntimeRefused('no nft'), null);
    for (let n = 0; n < 2; n += 1)
      await expect(rules.ensure()).rejects.toThrow('No agent is started whose port would be open to others at 10.0.0.5: no nft.');
    expect(rules.lack).toBe('no nft');
    await rules.ensure();
    expect([rules.lack, told]).toEqual([null, ['no nft', null]]);
    rules.close();
  });

  it('are not reported as missing because the engine is unavailable', async () => {
    const { rules, told } = rulesWith(new RuntimeUnavailable(new Error('away')), null);
    await expect(rules.ensure()).rejects.toThrow(RuntimeUnavailable);
    await rules.ensure();
    expect(told).toEqual([]);
    rules.close();
  });
});
