import { RuntimeRefused } from '../../runtime.errors.ts';
import { noRules } from './egress-rules.ts';
import { noLinkRules } from './link-rules.ts';
import type { Nft } from './nft.ts';

/** The number of loads after which refused rules of links are tried again. */
const LINKS_SKIPPED = 10;

export interface LoadedTables {
  /** The counters that nft listed. */
  printed: string;
  /** The reason why the rules of links are not in place; null if they are. */
  linkLack: string | null;
}

/** Loads the tables of an installation. A kernel without packet rules for bridges gets only the other tables. */
export class PacketTables {
  private linkLack: string | null = null;
  private skips = 0;

  constructor(
    private readonly nft: Pick<Nft, 'run'>,
    private readonly instance: string,
  ) {}

  /** Loads both scripts as one transaction, or only the first. Throws `RuntimeRefused` if that can't be loaded either. */
  async load(egress: string, links: string): Promise<LoadedTables> {
    if (this.skips === 0) {
      try {
        const printed = await this.replace(egress + links, noRules(this.instance) + noLinkRules(this.instance));
        return { printed, linkLack: null };
      } catch (error) {
        if (!(error instanceof RuntimeRefused)) throw error;
        this.linkLack = error.message;
      }
    }
    const printed = await this.replace(egress, noRules(this.instance));
    this.skips = this.skips === 0 ? LINKS_SKIPPED : this.skips - 1;
    return { printed, linkLack: this.linkLack };
  }

  /** Runs the script. A table that can't be updated is removed and created again. */
  private async replace(script: string, removal: string): Promise<string> {
    try {
      return await this.nft.run(script);
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      return this.nft.run(removal + script);
    }
  }
}
