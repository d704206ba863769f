import { RuntimeRefused } from '../../runtime.errors.ts';
import type { Nft } from './nft.ts';
import { chainCommands, setCommands } from './nft-script.ts';
import type { PublishedPorts } from './published-ports.ts';

/** The interval at which the rules are loaded again, in case something else has changed them, in ms. */
const RELOAD_MS = 60_000;

/** Ports that are published where others besides the service could reach them. */
export type GuardedPorts = PublishedPorts & { clients: readonly string[] };

const nameOf = (instance: string): string => `ip mooring_${instance}_ports`;

/**
 * Returns the rules by which only the clients reach the published ports, as one nft transaction, which may be loaded again at any time.
 * They apply before address translation, so they hold whether the engine forwards a connection or one of its programs accepts it, and
 * whether it comes from the network or from a container.
 */
export function portRules(instance: string, { address, ports, clients }: GuardedPorts): string {
  const table = nameOf(instance);
  const hook = ' { type filter hook prerouting priority -150; policy accept; }';
  return [
    `add table ${table}`,
    ...setCommands(table, 'clients', 'ipv4_addr', clients, 'flags interval; '),
    ...chainCommands(table, 'prerouting', [`ip daddr ${address} tcp dport ${ports} ip saddr != @clients drop`], hook),
    '',
  ].join('\n');
}

/** Keeps the rules in place. Without them no agent is started on such ports. */
export class PortRules {
  private loadedAt = -Infinity;
  private loading: Promise<void> | null = null;
  private timer: NodeJS.Timeout | undefined;
  private isClosed = false;
  /** The reason why the rules are not in place; null if they are, or were not loaded yet. */
  lack: string | null = null;

  constructor(
    private readonly nft: Pick<Nft, 'run'>,
    private readonly instance: string,
    private readonly ports: GuardedPorts,
    /** Called with the reason when the rules can't be loaded, and with null when they can be loaded again. */
    private readonly onChange: (lack: string | null) => void,
  ) {}

  /** Resolves when the rules are in place. Throws `RuntimeRefused` if they can't be loaded, and `RuntimeUnavailable`. */
  async ensure(): Promise<void> {
    if (performance.now() - this.loadedAt > RELOAD_MS) await this.load();
  }

  /** Records that the engine's machine may have restarted, and loads the rules again. */
  invalidate(): void {
    this.loadedAt = -Infinity;
    this.load().catch(() => undefined);
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private load(): Promise<void> {
    this.loading ??= this.loadNow().finally(() => (this.loading = null));
    return this.loading;
  }

  private async loadNow(): Promise<void> {
    clearTimeout(this.timer);
    try {
      const begun = performance.now();
      await this.nft.run(portRules(this.instance, this.ports));
      this.loadedAt = begun;
      this.applyLack(null);
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      this.applyLack(error.message);
      const { address } = this.ports;
      throw new RuntimeRefused(`No agent is started whose port would be open to others at ${address}: ${error.message}.`, { cause: error });
    } finally {
      if (!this.isClosed) this.timer = setTimeout(() => void this.load().catch(() => undefined), RELOAD_MS).unref();
    }
  }

  private applyLack(lack: string | null): void {
    if (lack !== this.lack) this.onChange(lack);
    this.lack = lack;
  }
}
